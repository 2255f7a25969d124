/** Messages in the reader's language. Each language is one file in `messages/`. */

import { visible } from "../visible-text.js";

/** @import { Message } from "../types.js" */

export const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", fr: "Français", ja: "日本語" };

/** @typedef {keyof typeof LANGUAGES} Language */

/** The paths are literals because the bundle replaces them with content-hashed ones. */
const LOAD = {
  en: () => import("./messages/en.js"),
  de: () => import("./messages/de.js"),
  es: () => import("./messages/es.js"),
  fr: () => import("./messages/fr.js"),
  ja: () => import("./messages/ja.js"),
};

const STORAGE_KEY = "portico.language";

/** @type {Language} */
let code = "en";
/** @type {Record<string, Message>} */
let messages = {};
let plurals = new Intl.PluralRules(code);
let numbers = new Intl.NumberFormat(code);

export const language = () => code;

/** The language with the region from the browser's settings, for dates and numbers. */
export function locale() {
  return navigator.languages.find((tag) => tag.split("-")[0] === code) ?? code;
}

export async function loadMessages() {
  const stored = localStorage.getItem(STORAGE_KEY) ?? "";
  const wanted = [stored, ...navigator.languages.map((tag) => tag.split("-")[0])];
  code = wanted.find(isLanguage) ?? "en";
  messages = (await LOAD[code]()).default;
  plurals = new Intl.PluralRules(locale());
  numbers = new Intl.NumberFormat(locale());
  document.documentElement.lang = code;
}

/** @param {string} tag @returns {tag is Language} */
const isLanguage = (tag) => tag in LANGUAGES;

/** Takes effect on the next load. @param {string} chosen */
export function storeLanguage(chosen) {
  localStorage.setItem(STORAGE_KEY, chosen);
}

/** @param {string} key */
export const hasMessage = (key) => key in messages;

/**
 * The message for a key. `{name}` is replaced by `values.name`; `values.count` selects the plural form.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const found = messages[key];
  const text = (typeof found === "object" ? (found[plurals.select(Number(values.count))] ?? found.other) : found) ?? key;
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => {
    const value = values[name];
    return value === undefined ? placeholder : typeof value === "number" ? numbers.format(value) : visible(value);
  });
}
