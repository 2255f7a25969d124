/** Sizes, dates and durations in the reader's locale. */

import { locale } from "./i18n.js";

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte", "petabyte"];

/** @type {Map<string, unknown>} */
const formatters = new Map();

/** Formatters are expensive to create, so each is created once. @template T @param {string} key @param {() => T} create @returns {T} */
function formatter(key, create) {
  const name = `${locale()} ${key}`;
  if (!formatters.has(name)) formatters.set(name, create());
  return /** @type {T} */ (formatters.get(name));
}

/** @param {string} unit @param {number} digits */
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

/** @param {number} value */
export const number = (value) => formatter("number", () => new Intl.NumberFormat(locale())).format(value);

/** @param {number} share between 0 and 1 */
export const percent = (share) =>
  formatter("percent", () => new Intl.NumberFormat(locale(), { style: "percent" })).format(share);

/** @param {string | undefined} iso */
export function dateTime(iso) {
  if (!iso) return "";
  const format = formatter("dateTime", () => new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }));
  return format.format(new Date(iso));
}

/** A long date of each month, to measure how wide a column of dates has to be. */
export const longDates = () => Array.from({ length: 12 }, (_, month) => dateTime(new Date(2028, month, 28, 22, 58).toISOString()));

/** Hours and minutes, minutes or seconds, whichever is enough. @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return unitFormat("second", 0).format(whole);
  if (whole < 3600) return unitFormat("minute", 0).format(Math.round(whole / 60));
  const hours = Math.floor(whole / 3600);
  const minutes = Math.round((whole % 3600) / 60);
  return `${unitFormat("hour", 0).format(hours)} ${minutes ? unitFormat("minute", 0).format(minutes) : ""}`.trim();
}

/** Natural order: `file 2` before `file 10`. */
export function collator() {
  return formatter("collator", () => new Intl.Collator(locale(), { numeric: true }));
}
