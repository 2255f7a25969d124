/** Sizes, moments and spans, as people of this language write them. */

import { locale } from "./texts.js";

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte", "petabyte"];

const made = new Map();

function formatter(key, make) {
  const name = `${locale()} ${key}`;
  if (!made.has(name)) made.set(name, make());
  return made.get(name);
}

function unitFormat(unit, digits) {
  return formatter(`${unit} ${digits}`, () =>
    new Intl.NumberFormat(locale(), {
      style: "unit", unit, unitDisplay: unit === "byte" ? "narrow" : "short", maximumFractionDigits: digits,
    }));
}

/** @param {number} count */
export function bytes(count) {
  let value = count;
  let step = 0;
  while (value >= 999.5 && step < UNITS.length - 1) {
    value /= 1000;
    step += 1;
  }
  const text = unitFormat(UNITS[step], step > 0 && value < 10 ? 1 : 0).format(value);
  return text.replace(/(\d)(\p{L})/u, "$1\u00a0$2");
}

export const number = (value) => formatter("number", () => new Intl.NumberFormat(locale())).format(value);

export const percent = (share) =>
  formatter("percent", () => new Intl.NumberFormat(locale(), { style: "percent" })).format(share);

/** @param {string | undefined} iso */
export function moment(iso) {
  if (!iso) return "";
  const format = formatter("moment", () => new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }));
  return format.format(new Date(iso));
}

/** One moment of each month, as long as they come: what a column of moments must hold. */
export const longMoments = () => Array.from({ length: 12 }, (_, month) => moment(new Date(2028, month, 28, 22, 58).toISOString()));

/** Seconds as the two largest units that matter. */
export function span(seconds) {
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return unitFormat("second", 0).format(whole);
  if (whole < 3600) return unitFormat("minute", 0).format(Math.round(whole / 60));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.round((whole % 3600) / 60);
  return `${unitFormat("hour", 0).format(hours)} ${minutes ? unitFormat("minute", 0).format(minutes) : ""}`.trim();
}

/** People's order: `file 2` before `file 10`. */
export function collator() {
  return formatter("collator", () => new Intl.Collator(locale(), { numeric: true }));
}
