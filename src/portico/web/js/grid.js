/** The table of a folder's entries: one row each, of which only those in sight exist. */

import { bdi, make } from "./dom.js";
import { bytes, longMoments, moment } from "./formats.js";
import { icon, iconOf, redraw } from "./icons.js";
import { VirtualList } from "./list.js";
import { toggleMenu } from "./menu.js";
import { join, link } from "./paths.js";
import { t } from "./texts.js";

const COLUMNS = ["name", "size", "modified"];
/** Digits of one width are a little wider than those that can be measured. */
const SPARE = 1.08;

export class Grid {
  /**
   * @param {import("./selection.js").Selection} selection
   * @param {{onOpen: (entry: object) => void, onMenu: (at: object) => void, onSort: (order: {key: string, descending: boolean}) => void,
   *   onScroll: () => void, onAll: () => void}} handlers
   */
  constructor(selection, handlers) {
    this.selection = selection;
    this.handlers = handlers;
    this.entries = [];
    this.path = "/";
    this.order = { key: "name", descending: false };
    this.fitted = false;
    this.allBox = make("input", { type: "checkbox", tabindex: "-1", "aria-label": t("selectAll"), onclick: () => handlers.onAll() });
    this.sorts = make("button", { type: "button", class: "sorts", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => toggleMenu(this.#sortMenu(), this.sorts) }, make("span", {}), icon("up"));
    this.heads = Object.fromEntries(COLUMNS.map((key) => [key, this.#head(key)]));
    this.header = make("div", { class: "row head", role: "row", "aria-rowindex": "1" },
      make("div", { class: "cell tick", role: "columnheader" }, this.allBox),
      ...Object.values(this.heads),
      make("div", { class: "cell more", role: "columnheader" }, make("span", { class: "unseen" }, t("actions"))));
    this.heads.name.append(this.sorts);
    this.canvas = make("div", { class: "canvas", role: "rowgroup" });
    this.element = make("div", { class: "grid", role: "grid", tabindex: "0", "aria-multiselectable": "true", "aria-label": t("files") },
      make("div", { class: "heads", role: "rowgroup" }, this.header), this.canvas);
    this.list = new VirtualList(this.element, this.canvas, { make: () => this.#row(), show: (row, index) => this.#show(row, index), onScroll: () => { this.#pointAtActive(); handlers.onScroll(); } });
    selection.addEventListener("change", () => this.#selectionChanged());
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("click", (event) => this.#click(event));
    this.canvas.addEventListener("dblclick", (event) => this.#doubleClick(event));
    this.canvas.addEventListener("contextmenu", (event) => this.#contextMenu(event));
    this.canvas.addEventListener("mousedown", (event) => { if (event.shiftKey) event.preventDefault(); });
  }

  /** @param {import("./listing.js").Listing} listing */
  show(listing) {
    this.path = listing.path;
    this.entries = listing.shown;
    this.order = listing.order;
    this.#fitMoments();
    this.element.setAttribute("aria-rowcount", listing.complete ? String(this.entries.length + 1) : "-1");
    for (const key of COLUMNS) {
      const head = this.heads[key];
      const sorted = listing.order.key === key;
      head.setAttribute("aria-sort", sorted ? (listing.order.descending ? "descending" : "ascending") : "none");
      const button = head.firstChild;
      redraw(button.lastChild, listing.order.descending ? "down" : "up");
      button.lastChild.classList.toggle("away", !sorted);
    }
    this.sorts.firstChild.textContent = `${t("sortBy")}: ${t(`column_${listing.order.key}`)}`;
    redraw(this.sorts.lastChild, listing.order.descending ? "down" : "up");
    this.list.setCount(this.entries.length);
    this.#selectionChanged();
  }

  focus() {
    this.element.focus({ preventScroll: true });
  }

  reveal(index) {
    this.list.reveal(index);
    this.#pointAtActive();
  }

  #head(key) {
    const button = make("button", { type: "button", class: "sort", onclick: () => this.handlers.onSort({ key, descending: this.order.key === key && !this.order.descending }) }, t(`column_${key}`), icon("up"));
    return make("div", { class: `cell ${key}`, role: "columnheader" }, button);
  }

  /** For narrow screens, which have no room for the columns' heads. */
  #sortMenu() {
    const { key: sorted, descending } = this.order;
    const sort = (order) => () => this.handlers.onSort({ ...this.order, ...order });
    return [
      ...COLUMNS.map((key) => ({ label: t(`column_${key}`), checked: key === sorted, run: sort({ key }) })),
      { label: t("ascending"), checked: !descending, run: sort({ descending: false }), apart: true },
      { label: t("descending"), checked: descending, run: sort({ descending: true }) },
    ];
  }

  /** The column is as wide as this language's moments in this font, so that none is cut off. */
  #fitMoments() {
    if (this.fitted || !this.element.isConnected) return;
    this.fitted = true;
    const context = document.createElement("canvas").getContext("2d");
    context.font = getComputedStyle(this.element).font;
    const widest = Math.max(...longMoments().map((text) => context.measureText(text).width));
    this.element.style.setProperty("--moment", `${Math.ceil(widest * SPARE)}px`);
  }

  /** What is on top of the view, so that it can be there again after the list has changed. */
  get anchor() {
    const { scrollTop } = this.element;
    const index = Math.floor(scrollTop / this.list.height);
    return { scrollTop, name: scrollTop ? this.entries[index]?.name : "", within: scrollTop - index * this.list.height };
  }

  restore({ scrollTop, name, within }) {
    const index = name ? this.entries.findIndex((entry) => entry.name === name) : -1;
    this.element.scrollTop = index < 0 ? scrollTop : index * this.list.height + within;
    this.list.draw(true);
    this.#pointAtActive();
  }

  #row() {
    return make("div", { class: "row", role: "row" },
      make("div", { class: "cell tick", role: "gridcell" }, make("input", { type: "checkbox", tabindex: "-1" })),
      make("div", { class: "cell name", role: "gridcell" }, icon("file"), make("a", { class: "open", tabindex: "-1", draggable: "false" }, bdi(""))),
      make("div", { class: "cell size", role: "gridcell" }),
      make("div", { class: "cell modified", role: "gridcell" }),
      make("div", { class: "cell more", role: "gridcell" }, make("button", { type: "button", class: "quiet round", tabindex: "-1", "aria-haspopup": "menu" }, icon("moreSolid"))));
  }

  #show(row, index) {
    const entry = this.entries[index];
    const [tick, name, size, modified, more] = row.children;
    row.id = `row-${index}`;
    row.index = index;
    row.setAttribute("aria-rowindex", String(index + 2));
    row.classList.toggle("folder", entry.folder);
    this.#mark(row, index);
    tick.firstChild.setAttribute("aria-label", t("selectName", { name: entry.name }));
    redraw(name.firstChild, iconOf(entry));
    const anchor = name.lastChild;
    if (entry.folder) anchor.href = link(join(this.path, entry.name));
    else anchor.removeAttribute("href");
    anchor.firstChild.textContent = entry.name;
    anchor.title = entry.name;
    size.textContent = entry.size === undefined || entry.folder ? "" : bytes(entry.size);
    modified.textContent = moment(entry.modified);
    more.firstChild.setAttribute("aria-label", t("actionsFor", { name: entry.name }));
  }

  #mark(row, index) {
    const chosen = this.selection.has(this.entries[index].name);
    row.setAttribute("aria-selected", String(chosen));
    row.querySelector("input").checked = chosen;
    row.classList.toggle("active", index === this.selection.active);
  }

  #selectionChanged() {
    for (const [index, row] of this.list.placed) if (this.entries[index]) this.#mark(row, index);
    const { size } = this.selection;
    this.allBox.checked = size > 0 && size === this.entries.length;
    this.allBox.indeterminate = size > 0 && size < this.entries.length;
    this.element.classList.toggle("choosing", size > 0);
    this.#pointAtActive();
  }

  #pointAtActive() {
    const row = this.list.rowAt(this.selection.active);
    if (row && !row.hidden) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    if (event.target !== this.element) return;
    const { selection } = this;
    const { active } = selection;
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: this.entries.length - 1, PageDown: active + this.list.pageLength, PageUp: active - this.list.pageLength };
    if (event.key in steps && !event.altKey) {
      selection.moveTo(steps[event.key], { extend: event.shiftKey });
      this.reveal(selection.active);
    } else if (event.key === " ") selection.toggle(active);
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) selection.all();
    else if (event.key === "Enter" && this.entries[active]) this.handlers.onOpen(this.entries[active]);
    else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      this.reveal(active);
      this.handlers.onMenu(this.list.rowAt(active).querySelector(".more button"));
    } else return;
    event.preventDefault();
  }

  #click(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    const { index } = row;
    const { selection } = this;
    const onName = event.target.closest(".open");
    if (event.target.closest(".more button")) {
      if (!selection.has(this.entries[index].name)) selection.only(index);
      this.handlers.onMenu(event.target.closest("button"));
      return;
    }
    this.focus();
    if (event.shiftKey) {
      event.preventDefault();
      selection.extendTo(index);
    } else if (event.ctrlKey || event.metaKey || event.target.closest(".tick")) {
      if (event.target.tagName !== "INPUT") event.preventDefault();
      selection.toggle(index);
    } else if (onName || (event.pointerType === "touch" && !selection.size)) {
      event.preventDefault();
      selection.moveTo(index);
      this.handlers.onOpen(this.entries[index]);
    } else if (event.pointerType === "touch") selection.toggle(index);
    else selection.only(index);
  }

  #doubleClick(event) {
    const row = event.target.closest(".row");
    if (row && !event.target.closest(".open, .tick, .more")) this.handlers.onOpen(this.entries[row.index]);
  }

  #contextMenu(event) {
    const row = event.target.closest(".row");
    if (!row || event.shiftKey) return;
    event.preventDefault();
    this.focus();
    if (!this.selection.has(this.entries[row.index].name)) this.selection.only(row.index);
    this.handlers.onMenu({ x: event.clientX, y: event.clientY });
  }
}
