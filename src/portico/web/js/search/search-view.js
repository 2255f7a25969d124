/** The search below a folder, shown instead of its entries. It has an address of its own once it has begun. */

import { fill, make } from "../ui/dom.js";
import { errorContent, SignedOut } from "../api/errors.js";
import { number } from "../i18n/formats.js";
import { announce } from "../ui/notices.js";
import { Search } from "./search.js";
import { searchIn, searchLink } from "./search-address.js";
import { SearchForm } from "./search-form.js";
import { SearchResults } from "./search-results.js";
import { link } from "../paths.js";
import { t } from "../i18n/i18n.js";

/** @import { FoundEntry } from "../types.js" */

export class SearchView {
  /** @param {{onOpen: (entry: FoundEntry) => void, onStart: () => void, onClose: () => void}} handlers `onStart`: the folder's address is about to be left */
  constructor({ onOpen, onStart, onClose }) {
    this.onStart = onStart;
    this.onClose = onClose;
    this.folder = "/";
    /** Of the search. */
    this.address = "";
    /** @type {Search | null} */
    this.search = null;
    this.form = new SearchForm({ onSearch: () => this.#start(), onClose: () => this.close() });
    this.results = new SearchResults({ onOpen: (entry) => { this.search?.stop(); onOpen(entry); } });
    this.note = make("p", { class: "hint search-note" });
    this.status = make("p", { class: "search-status" });
    this.spinner = make("span", { class: "spinner", "aria-hidden": "true" });
    this.button = make("button", { type: "button", class: "link", onclick: () => this.#stopOrGoOn() });
    this.element = make("section", { class: "search", "aria-label": t("search"), hidden: true },
      this.form.element, this.note, this.results.element, make("div", { class: "status-bar" }, this.spinner, this.status, this.button));
    this.element.addEventListener("keydown", (event) => this.#onKey(event));
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** @param {string} folder @param {string} name what to search for at once, or empty */
  open(folder, name) {
    this.search?.stop();
    this.search = null;
    this.folder = folder;
    this.form.parameters = { name };
    this.element.hidden = false;
    this.#update();
    this.form.field.focus();
    if (name) this.#start();
  }

  /** Show the search that the address names; its results as they were left, if they are still known. @param {string} folder @param {Record<string, string>} parameters */
  show(folder, parameters) {
    const isKnown = this.search && this.address === searchLink(folder, parameters);
    this.folder = folder;
    this.form.parameters = parameters;
    this.element.hidden = false;
    if (isKnown) {
      this.#update();
      this.results.list.reveal(this.results.active);
      this.results.element.focus();
    } else {
      this.form.field.focus();
      this.#start();
    }
  }

  /** Back to the folder, and to its address. */
  close() {
    if (!this.isOpen) return;
    this.hide();
    if (!searchIn(location.hash)) return;
    if (history.state?.search) history.back();
    else history.replaceState(null, "", link(this.folder));
  }

  /** The address is no longer that of the search. */
  hide() {
    if (!this.isOpen) return;
    this.search?.stop();
    this.element.hidden = true;
    this.onClose();
  }

  /** The session has ended: the next user must not see this. @param {{address: boolean}} options whether to remove it from the address, too */
  forget({ address }) {
    if (address && searchIn(location.hash)) history.replaceState(null, "", link(this.folder));
    this.search?.stop();
    this.search = null;
    this.form.parameters = {};
    this.element.hidden = true;
  }

  #start() {
    this.search?.stop();
    this.address = searchLink(this.folder, this.form.parameters);
    if (searchIn(location.hash)) history.replaceState(history.state, "", this.address);
    else {
      this.onStart();
      history.pushState({ search: true }, "", this.address);
    }
    const search = new Search(this.folder, this.form.criteria);
    this.search = search;
    this.results.reset();
    search.addEventListener("change", () => { if (this.search === search) this.#update(); });
    this.#run(search);
  }

  /** @param {Search} search */
  async #run(search) {
    await search.run();
    if (this.search === search && this.isOpen) announce(this.status.textContent);
  }

  #stopOrGoOn() {
    if (!this.search) return;
    if (this.search.running) this.search.stop();
    else this.#run(this.search);
  }

  #update() {
    const { search } = this;
    this.results.show(search?.found ?? []);
    const failed = search?.error && !(search.error instanceof SignedOut);
    const empty = search?.complete && !search.found.length;
    fill(this.note, ...(failed ? errorContent(search.error) : [search ? (empty ? t("nothingFound") : "") : t("searchHelp")]));
    this.note.hidden = !this.note.textContent;
    this.note.className = failed ? "error search-note" : "hint search-note";
    this.spinner.hidden = !search?.running;
    this.button.hidden = !search || search.complete;
    this.button.textContent = t(search?.running ? "stopLoading" : "searchOn");
    this.status.textContent = search ? t(search.complete ? "foundAll" : "foundSoFar", { count: search.found.length, searched: number(search.searched) }) : "";
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key === "Escape") this.close();
    else if (event.key === "ArrowDown" && event.target === this.form.field && this.results.found.length) this.results.element.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
