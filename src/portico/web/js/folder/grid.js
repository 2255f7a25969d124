/** The table of a folder's entries. Only the visible rows exist. */

import { closest, make } from "../ui/dom.js";
import { bytes, dateTime, longDates } from "../i18n/formats.js";
import { icon, iconFor, setIcon } from "../ui/icons.js";
import { makeRow, rowIndex } from "./grid-row.js";
import { COLUMNS, sortMenu } from "./sort-menu.js";
import { Thumbnails } from "./thumbnails.js";
import { viewMode } from "./view-mode.js";
import { VirtualList } from "../ui/virtual-list.js";
import { toggleMenu } from "../ui/menu.js";
import { join, link } from "../paths.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** @import { Entry, Point, SortKey, SortOrder } from "../types.js" */
/** @import { Row } from "./grid-row.js" */

/** Tabular digits are a little wider than those that a canvas measures. */
const TABULAR_FACTOR = 1.08;

export class Grid {
  /**
   * @param {import("./selection.js").Selection} selection
   * @param {{onOpen: (entry: Entry) => void, onMenu: (at: HTMLElement | Point) => void, onSort: (order: SortOrder) => void,
   *   onScroll: () => void, onToggleAll: () => void}} handlers
   */
  constructor(selection, handlers) {
    this.selection = selection;
    this.handlers = handlers;
    /** @type {Entry[]} */
    this.entries = [];
    this.path = "/";
    /** @type {SortOrder} */
    this.order = { key: "name", descending: false };
    this.fitted = false;
    this.thumbnails = new Thumbnails();
    this.allBox = make("input", { type: "checkbox", tabindex: "-1", "aria-label": t("selectAll"), onclick: () => handlers.onToggleAll() });
    this.sortLabel = make("span", {});
    this.sortIcon = icon("up");
    this.sortButton = make("button", { type: "button", class: "sort-menu", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => toggleMenu(sortMenu(this.order, handlers.onSort), this.sortButton) }, this.sortLabel, this.sortIcon);
    this.columns = COLUMNS.map((key) => this.#columnHeader(key));
    this.columns[0].element.append(this.sortButton);
    this.header = make("div", { class: "row header", role: "row", "aria-rowindex": "1" },
      make("div", { class: "cell select", role: "columnheader" }, this.allBox),
      ...this.columns.map(({ element }) => element),
      make("div", { class: "cell more", role: "columnheader" }, make("span", { class: "visually-hidden" }, t("actions"))));
    this.canvas = make("div", { class: "canvas", role: "rowgroup" });
    this.element = make("div", { class: "grid", role: "grid", tabindex: "0", "aria-multiselectable": "true", "aria-label": t("files") },
      make("div", { class: "header-rows", role: "rowgroup" }, this.header), this.canvas);
    this.list = new VirtualList(this.element, this.canvas, { make: makeRow, show: (row, index) => this.#show(row, index), onScroll: () => { this.#updateActiveDescendant(); handlers.onScroll(); } });
    selection.addEventListener("change", () => this.#selectionChanged());
    this.element.classList.toggle("tiles", viewMode.isGrid);
    viewMode.addEventListener("change", () => this.#changeView());
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
    this.canvas.addEventListener("click", (event) => this.#onClick(event));
    this.canvas.addEventListener("dblclick", (event) => this.#onDoubleClick(event));
    this.canvas.addEventListener("contextmenu", (event) => this.#onContextMenu(event));
    this.canvas.addEventListener("mousedown", (event) => { if (event.shiftKey) event.preventDefault(); });
  }

  /** @param {import("./listing.js").Listing} listing */
  show(listing) {
    this.path = listing.path;
    this.entries = listing.shown;
    this.order = listing.order;
    this.#fitDates();
    this.element.setAttribute("aria-rowcount", listing.complete ? String(this.entries.length + 1) : "-1");
    const direction = listing.order.descending ? "down" : "up";
    for (const { key, element, arrow } of this.columns) {
      const sorted = listing.order.key === key;
      element.setAttribute("aria-sort", sorted ? (listing.order.descending ? "descending" : "ascending") : "none");
      setIcon(arrow, direction);
      arrow.classList.toggle("inactive", !sorted);
    }
    this.sortLabel.textContent = `${t("sortBy")}: ${t(`column_${listing.order.key}`)}`;
    setIcon(this.sortIcon, direction);
    this.list.setCount(this.entries.length);
    this.#selectionChanged();
  }

  focus() {
    this.element.focus({ preventScroll: true });
  }

  /** @param {number} index */
  reveal(index) {
    this.list.reveal(index);
    this.#updateActiveDescendant();
  }

  /** @param {SortKey} key */
  #columnHeader(key) {
    const arrow = icon("up");
    const button = make("button", { type: "button", class: "sort", onclick: () => this.handlers.onSort({ key, descending: this.order.key === key && !this.order.descending }) }, t(`column_${key}`), arrow);
    return { key, arrow, element: make("div", { class: `cell ${key}`, role: "columnheader" }, button) };
  }

  /** Make the column as wide as the longest date of this locale in this font. */
  #fitDates() {
    if (this.fitted || !this.element.isConnected) return;
    this.fitted = true;
    const context = document.createElement("canvas").getContext("2d");
    if (!context) return;
    context.font = getComputedStyle(this.element).font;
    const widest = Math.max(...longDates().map((text) => context.measureText(text).width));
    this.element.style.setProperty("--date-width", `${Math.ceil(widest * TABULAR_FACTOR)}px`);
  }

  /** The topmost visible row, to restore it after the list has changed. */
  get anchor() {
    const { scrollTop } = this.element;
    const line = Math.floor(scrollTop / this.list.height);
    return { scrollTop, name: scrollTop ? this.entries[line * this.list.columns]?.name : "", within: scrollTop - line * this.list.height };
  }

  /** @param {typeof this.anchor} anchor */
  restore({ scrollTop, name, within }) {
    const index = name ? this.entries.findIndex((entry) => entry.name === name) : -1;
    this.element.scrollTop = index < 0 ? scrollTop : this.list.top(index) + within;
    this.list.draw(true);
    this.#updateActiveDescendant();
  }

  /** Show the same entries in the other view. */
  #changeView() {
    const { name } = this.anchor;
    this.element.classList.toggle("tiles", viewMode.isGrid);
    this.list.draw(true);
    this.restore({ scrollTop: 0, name, within: 0 });
  }

  /** @param {Row} row @param {number} index */
  #show(row, index) {
    const entry = this.entries[index];
    row.element.id = `row-${index}`;
    row.element.dataset.index = String(index);
    row.element.setAttribute("aria-rowindex", String(index + 2));
    row.element.classList.toggle("folder", entry.folder);
    this.#showSelection(row, index);
    row.checkbox.setAttribute("aria-label", t("selectName", { name: entry.name }));
    setIcon(row.icon, iconFor(entry));
    if (entry.folder || session.mayIn(this.path, "download")) row.link.href = link(join(this.path, entry.name));
    else row.link.removeAttribute("href");
    row.mark.hidden = session.isGuest || !(entry.folder && session.mounts.beginAt(join(this.path, entry.name)));
    row.name.textContent = row.link.title = visible(entry.name);
    row.size.textContent = entry.size === undefined || entry.folder ? "" : bytes(entry.size);
    row.modified.textContent = dateTime(entry.modified);
    row.menuButton.setAttribute("aria-label", t("actionsFor", { name: entry.name }));
    if (viewMode.isGrid) this.thumbnails.show(row, this.path, entry);
  }

  /** @param {Row} row @param {number} index */
  #showSelection(row, index) {
    const selected = this.selection.has(this.entries[index].name);
    row.element.setAttribute("aria-selected", String(selected));
    row.checkbox.checked = selected;
    row.element.classList.toggle("active", index === this.selection.active);
  }

  #selectionChanged() {
    for (const [index, row] of this.list.rendered) if (this.entries[index]) this.#showSelection(row, index);
    const { size } = this.selection;
    this.allBox.checked = size > 0 && size === this.entries.length;
    this.allBox.indeterminate = size > 0 && size < this.entries.length;
    this.element.classList.toggle("selecting", size > 0);
    this.#updateActiveDescendant();
  }

  #updateActiveDescendant() {
    const row = this.list.rowAt(this.selection.active)?.element;
    if (row && !row.hidden) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.target !== this.element) return;
    const { selection } = this;
    const { active } = selection;
    /** @type {Record<string, number>} */
    const targets = { ...(viewMode.isGrid ? { ArrowLeft: active - 1, ArrowRight: active + 1 } : {}), ArrowDown: active + this.list.columns, ArrowUp: active - this.list.columns, Home: 0, End: this.entries.length - 1, PageDown: active + this.list.pageLength, PageUp: active - this.list.pageLength };
    if (event.key in targets && !event.altKey) {
      selection.moveTo(targets[event.key], { extend: event.shiftKey });
      this.reveal(selection.active);
    } else if (event.key === " ") selection.toggle(active);
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) selection.all();
    else if (event.key === "Enter" && this.entries[active]) this.handlers.onOpen(this.entries[active]);
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      this.reveal(active);
      const row = this.list.rowAt(active);
      if (row) this.handlers.onMenu(row.menuButton);
    } else return;
    event.preventDefault();
  }

  /** @param {PointerEvent} event */
  #onClick(event) {
    const index = rowIndex(event);
    if (index < 0) return;
    const { selection } = this;
    const menuButton = closest(event, ".more button");
    if (menuButton) {
      if (!selection.has(this.entries[index].name)) selection.only(index);
      this.handlers.onMenu(menuButton);
      return;
    }
    this.focus();
    if (event.shiftKey) {
      event.preventDefault();
      selection.extendTo(index);
    } else if (event.ctrlKey || event.metaKey || closest(event, ".select")) {
      if (!closest(event, "input")) event.preventDefault();
      selection.toggle(index);
    } else if (closest(event, ".open") || (event.pointerType === "touch" && !selection.size)) {
      event.preventDefault();
      selection.moveTo(index);
      this.handlers.onOpen(this.entries[index]);
    } else if (event.pointerType === "touch") selection.toggle(index);
    else selection.only(index);
  }

  /** @param {MouseEvent} event */
  #onDoubleClick(event) {
    const index = rowIndex(event);
    if (index >= 0 && !closest(event, ".open, .select, .more")) this.handlers.onOpen(this.entries[index]);
  }

  /** @param {MouseEvent} event */
  #onContextMenu(event) {
    const index = rowIndex(event);
    if (index < 0 || event.shiftKey) return;
    event.preventDefault();
    this.focus();
    if (!this.selection.has(this.entries[index].name)) this.selection.only(index);
    this.handlers.onMenu({ x: event.clientX, y: event.clientY });
  }
}
