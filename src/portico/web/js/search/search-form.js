/** The form of a search: a name, and filters by type, size, age and case. */

import { bytes } from "../i18n/formats.js";
import { icon } from "../ui/icons.js";
import { make } from "../ui/dom.js";
import { t } from "../i18n/i18n.js";

const MAX_NAME = 255;
const MEGABYTE = 10 ** 6;
const DAY = 24 * 60 * 60 * 1000;

/** @typedef {[label: string, parameters: Record<string, string>]} Choice a choice, and its parameters in the page's address */

/** The filters, by the message key of their label. @returns {[label: string, choices: Choice[]][]} */
const filters = () => [
  ["searchType", [
    [t("anyType"), {}],
    [t("onlyFolders"), { type: "folder" }],
    [t("onlyFiles"), { type: "file" }],
    [t("onlyImages"), { type: "image/" }],
    [t("onlyVideos"), { type: "video/" }],
    [t("onlyAudio"), { type: "audio/" }],
    [t("onlyText"), { type: "text/" }],
    ["PDF", { type: "application/pdf" }],
  ]],
  ["searchSize", [
    [t("anySize"), {}],
    ...[1, 10, 100, 1000].map((size) => /** @type {Choice} */ ([t("largerThan", { size: bytes(size * MEGABYTE) }), { minSize: String(size * MEGABYTE) }])),
    [t("smallerThan", { size: bytes(MEGABYTE) }), { maxSize: String(MEGABYTE) }],
  ]],
  ["searchAge", [
    [t("anyTime"), {}],
    ...[1, 7, 30, 365].map((days) => /** @type {Choice} */ ([t("lastDays", { count: days }), { days: String(days) }])),
    [t("olderThanYear"), { olderThanDays: "365" }],
  ]],
  ["searchCase", [
    [t("anyCase"), {}],
    [t("matchCase"), { case: "match" }],
  ]],
];

/** @param {string} days */
const daysAgo = (days) => new Date(Date.now() - Number(days) * DAY).toISOString();

export class SearchForm {
  /** @param {{onSearch: () => void, onClose: () => void}} handlers */
  constructor({ onSearch, onClose }) {
    this.field = make("input", { type: "search", id: "search", placeholder: t("searchHint"), "aria-label": t("searchName"), autocomplete: "off", spellcheck: "false", autocapitalize: "off", maxlength: String(MAX_NAME), enterkeyhint: "search" });
    this.choices = filters().map(([name, choices]) => ({
      choices,
      select: make("select", { "aria-label": t(name), onchange: () => onSearch() }, ...choices.map(([label]) => make("option", {}, label))),
    }));
    this.element = make("form", { class: "search-form", role: "search" },
      make("label", { class: "filter", for: "search" }, icon("search"), this.field),
      ...this.choices.map(({ select }) => select),
      make("button", { class: "primary" }, t("searchNow")),
      make("button", { type: "button", class: "quiet round", "aria-label": t("closeSearch"), title: `${t("closeSearch")} (${t("capEscape")})`, onclick: onClose }, icon("close")));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      onSearch();
    });
  }

  /** What the page's address says of the search. @returns {Record<string, string>} */
  get parameters() {
    return Object.assign({ name: this.field.value.trim() }, ...this.choices.map(({ choices, select }) => choices[select.selectedIndex][1]));
  }

  set parameters(parameters) {
    this.field.value = (parameters.name ?? "").slice(0, MAX_NAME);
    for (const { choices, select } of this.choices) {
      const chosen = choices.findIndex(([, wanted], index) => index && Object.entries(wanted).every(([key, value]) => parameters[key] === value));
      select.selectedIndex = Math.max(0, chosen);
    }
  }

  /** The parameters of `action=SEARCH`. @returns {Record<string, string>} */
  get criteria() {
    const { name, days, olderThanDays, ...criteria } = this.parameters;
    return {
      ...criteria,
      ...(name ? { name } : {}),
      ...(days ? { modifiedAfter: daysAgo(days) } : {}),
      ...(olderThanDays ? { modifiedBefore: daysAgo(olderThanDays) } : {}),
    };
  }
}
