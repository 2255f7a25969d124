/** The words of the page, in the reader's language. Each language is one file in `texts/`. */

export const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", fr: "Français", ja: "日本語" };

/** Loaded one at a time; each address is written out, so that it can be replaced by one that depends on the content. */
const LOAD = {
  en: () => import("./texts/en.js"),
  de: () => import("./texts/de.js"),
  es: () => import("./texts/es.js"),
  fr: () => import("./texts/fr.js"),
  ja: () => import("./texts/ja.js"),
};

const KEPT = "portico.language";

let code = "en";
let words = {};
let plurals = new Intl.PluralRules(code);
let numbers = new Intl.NumberFormat(code);

export const language = () => code;

/** The region that the reader has chosen for this language, so that dates and numbers look as at home. */
export function locale() {
  return navigator.languages.find((tag) => tag.split("-")[0] === code) ?? code;
}

export async function loadTexts() {
  const kept = localStorage.getItem(KEPT);
  const wanted = [kept, ...navigator.languages.map((tag) => tag.split("-")[0])];
  code = wanted.find((tag) => tag && tag in LANGUAGES) ?? "en";
  words = (await LOAD[code]()).default;
  plurals = new Intl.PluralRules(locale());
  numbers = new Intl.NumberFormat(locale());
  document.documentElement.lang = code;
}

export function keepLanguage(chosen) {
  localStorage.setItem(KEPT, chosen);
}

export const has = (key) => key in words;

/**
 * The text of that key; `{name}` is replaced by `values.name`, and `values.count` chooses the plural form.
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const found = words[key];
  const text = typeof found === "object" ? (found[plurals.select(values.count)] ?? found.other) : found;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? numbers.format(value) : value;
  });
}
