/** The results of a search, each with its folder. Only the visible rows exist. */

import { bdi, closest, make } from "../ui/dom.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { icon, iconFor, setIcon } from "../ui/icons.js";
import { VirtualList } from "../ui/virtual-list.js";
import { parent } from "../paths.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** @import { FoundEntry } from "../types.js" */
/** @typedef {ReturnType<typeof makeRow>} Row */

function makeRow() {
  const parts = { icon: icon("file"), name: bdi(""), folder: bdi(""), facts: make("span", { class: "facts" }) };
  const texts = make("div", { class: "texts" }, make("div", { class: "found-name" }, parts.name), make("div", { class: "found-folder" }, parts.folder));
  return { ...parts, element: make("div", { class: "found", role: "option" }, parts.icon, texts, parts.facts) };
}

export class SearchResults {
  /** @param {{onOpen: (entry: FoundEntry) => void}} handlers */
  constructor({ onOpen }) {
    this.onOpen = onOpen;
    /** @type {FoundEntry[]} */
    this.found = [];
    this.active = 0;
    this.canvas = make("div", { class: "canvas", role: "presentation" });
    this.element = make("div", { class: "found-list", role: "listbox", tabindex: "0", "aria-label": t("searchResults") }, this.canvas);
    this.list = new VirtualList(this.element, this.canvas, { make: makeRow, show: (row, index) => this.#show(row, index), onScroll: () => this.#activate() });
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.canvas.addEventListener("click", (event) => {
      const index = Number(closest(event, ".found")?.dataset.index ?? -1);
      if (index < 0) return;
      this.active = index;
      onOpen(this.found[index]);
    });
  }

  /** @param {FoundEntry[]} found */
  show(found) {
    this.found = found;
    this.active = Math.min(this.active, Math.max(0, found.length - 1));
    this.element.hidden = !found.length;
    this.list.setCount(found.length);
    this.#activate();
  }

  reset() {
    this.active = 0;
    this.element.scrollTop = 0;
  }

  /** @param {Row} row @param {number} index */
  #show(row, index) {
    const entry = this.found[index];
    row.element.id = `found-${index}`;
    row.element.dataset.index = String(index);
    row.element.classList.toggle("folder", entry.folder);
    row.element.setAttribute("aria-posinset", String(index + 1));
    row.element.setAttribute("aria-setsize", String(this.found.length));
    setIcon(row.icon, iconFor(entry));
    row.name.textContent = visible(entry.name);
    row.folder.textContent = visible(parent(entry.path));
    row.element.title = visible(entry.path);
    row.facts.textContent = [entry.folder || entry.size === undefined ? "" : bytes(entry.size), dateTime(entry.modified)].filter(Boolean).join(" · ");
  }

  #activate() {
    for (const [index, row] of this.list.rendered) {
      row.element.classList.toggle("active", index === this.active);
      row.element.setAttribute("aria-selected", String(index === this.active));
    }
    const row = this.list.rowAt(this.active)?.element;
    if (row) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    /** @type {Record<string, number>} */
    const targets = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, Home: 0, End: this.found.length - 1, PageDown: this.active + this.list.pageLength, PageUp: this.active - this.list.pageLength };
    if (event.key in targets) {
      this.active = Math.max(0, Math.min(targets[event.key], this.found.length - 1));
      this.list.reveal(this.active);
      this.#activate();
    } else if (event.key === "Enter" && this.found[this.active]) this.onOpen(this.found[this.active]);
    else return;
    event.preventDefault();
  }
}
