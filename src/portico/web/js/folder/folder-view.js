/** The view of one folder: breadcrumbs, toolbar, entries and status bar. */

import { breadcrumbs } from "../ui/breadcrumbs.js";
import { bdi, fill, isTyping, make } from "../ui/dom.js";
import { runCommand } from "./commands.js";
import { StatusBar } from "./status-bar.js";
import { Grid } from "./grid.js";
import { Listing } from "./listing.js";
import { showMenu } from "../ui/menu.js";
import { announce, notifyError } from "../ui/notices.js";
import { join, link, nameOf } from "../paths.js";
import { FilePreview } from "./file-preview.js";
import { openFile, showAddress } from "./addresses.js";
import { codeOf, isAbort, SignedOut } from "../api/errors.js";
import { SearchView } from "../search/search-view.js";
import { Placeholder } from "./placeholder.js";
import { Selection } from "./selection.js";
import { listable } from "./reconnection.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";
import { watchRowDrag } from "./row-drag.js";
import { entryMenu, Toolbar } from "./toolbar.js";

/** @import { Command, Entry, Point, ScrollPosition } from "../types.js" */

/** Show that the folder is loading after this long, in milliseconds. */
const SLOW = 200;
/** Larger folders are refreshed only on request. */
const MAX_AUTO_REFRESH = 10_000;

export class FolderView {
  /** @param {{onUpload: (kind: "files" | "folder") => void, onLeave: () => void, onScroll: () => void}} handlers */
  constructor({ onUpload, onLeave, onScroll }) {
    this.onUpload = onUpload;
    this.onLeave = onLeave;
    this.onScroll = onScroll;
    /** @type {Listing | null} */
    this.refreshing = null;
    this.announcedCount = 0;
    this.filePreview = new FilePreview(this);
    /** The path that is being opened. */
    this.requested = "";
    this.listing = new Listing("/");
    this.selection = new Selection();
    this.grid = new Grid(this.selection, {
      onOpen: (entry) => this.openEntry(entry),
      onMenu: (at) => this.#menu(at),
      onSort: (order) => this.statusBar.sort(order),
      onScroll: () => this.#scrolled(),
      onToggleAll: () => (this.selection.size ? this.selection.clear() : this.selection.all()),
    });
    this.toolbar = new Toolbar({ run: (name) => this.run(name), onFilter: (text) => this.#filter(text) });
    this.breadcrumbBar = make("div", { class: "breadcrumb-bar" });
    this.placeholder = new Placeholder({ onShow: () => this.#hideGrid() });
    this.statusBar = new StatusBar({ onLoaded: () => this.grid.focus() });
    this.searchView = new SearchView({ onOpen: (entry) => this.leaveFor(entry.path), onStart: () => this.onLeave(), onClose: () => this.grid.focus() });
    this.element = make("main", { class: "folder-view", id: "main" }, this.breadcrumbBar, this.searchView.element, this.toolbar.element, this.grid.element, this.placeholder.element, this.statusBar.element);
    this.selection.addEventListener("change", () => this.#selectionChanged());
    watchRowDrag(this);
  }

  get path() {
    return this.listing.path;
  }

  /** Show a folder, or a file in its folder. @param {string} path @param {ScrollPosition | null} position @param {{reload?: boolean, search?: Record<string, string> | null}} [options] */
  show(path, position, options) {
    return showAddress(this, path, position, options);
  }

  /** @param {string} path @param {ScrollPosition | null} [position] where the reader was */
  async open(path, position = null) {
    this.listing.close();
    const listing = new Listing(path);
    this.listing = listing;
    this.selection.clear();
    this.statusBar.follow(listing);
    const heading = make("h1", { class: "visually-hidden", hidden: session.isGuest }, bdi(path === "/" ? t("root") : nameOf(path)));
    document.title = t("pageTitle", { name: heading.textContent });
    fill(this.breadcrumbBar, heading, breadcrumbs(path));
    this.toolbar.reset(path);
    if (!session.mayIn(path, "list")) {
      this.placeholder.showLocked(path);
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => this.placeholder.show("", t("loading")), SLOW);
    try {
      await listing.open(position?.count);
      if (position?.row && position.find) await listing.find(position.row);
    } catch (error) {
      if (listing.closed) return;
      if (codeOf(error) === "not-a-folder" && path === this.requested) return openFile(this, path);
      return this.#failed(error);
    } finally {
      clearTimeout(slow);
      if (!listing.closed) this.element.removeAttribute("aria-busy");
    }
    if (listing.closed) return;
    listing.addEventListener("change", () => this.#changed());
    this.selection.active = 0;
    this.#changed();
    this.grid.element.scrollTop = position?.scroll ?? 0;
    this.grid.list.draw(true);
    const row = listing.shown.findIndex((entry) => entry.name === position?.row);
    if (row >= 0) {
      this.selection.moveTo(row);
      this.grid.reveal(row);
    }
    if (!isTyping(document.activeElement) && !document.querySelector("dialog[open]")) this.grid.focus();
    announce(`${heading.textContent}: ${this.statusBar.status.textContent}`);
  }

  /** Load the folder again and keep the position, the selection and an open dialog. `quiet`: nobody asked for it. */
  async refresh({ quiet = false } = {}) {
    const { listing } = this;
    if (!listing.opened) {
      if (!quiet) await this.open(this.path, this.position);
      return;
    }
    if (listing.isLoadingAll || this.refreshing === listing || (quiet && listing.count > MAX_AUTO_REFRESH)) return;
    this.refreshing = listing;
    this.toolbar.busy = !quiet;
    const { anchor } = this.grid;
    try {
      if (await listing.refresh()) this.grid.restore(anchor);
      if (!quiet) announce(t("refreshed"));
    } catch (error) {
      if (!listing.closed) this.#refreshFailed(error, quiet);
    } finally {
      this.refreshing = null;
      this.toolbar.busy = false;
    }
  }

  /** @param {unknown} error @param {boolean} quiet */
  #refreshFailed(error, quiet) {
    if (["not-found", "not-a-folder", "forbidden"].includes(codeOf(error))) {
      this.listing.opened = false;
      this.#failed(error);
    } else if (!quiet) notifyError(error);
  }

  /** @returns {ScrollPosition} */
  get position() {
    return { scroll: this.grid.element.scrollTop, search: history.state?.search, count: this.grid.element.scrollTop ? this.grid.list.range().last : 0, row: this.listing.shown[this.selection.active]?.name };
  }

  /** @param {Entry} entry */
  openEntry(entry) {
    if (entry.folder) this.leaveFor(join(this.path, entry.name));
    else if (session.mayIn(this.path, "download")) {
      this.onLeave();
      this.filePreview.choose(entry);
    }
  }

  /** Run a command, if it is offered here and now. @param {Command} name */
  run(name) {
    return runCommand(this, name);
  }

  /** @param {string} path */
  leaveFor(path) {
    this.onLeave();
    location.hash = link(path);
  }

  /** Make the entry with this name active. @param {string} name */
  goTo(name) {
    if (!name) return;
    if (this.listing.filter && this.listing.byName.has(name)) {
      this.toolbar.field.value = "";
      this.#filter("");
    }
    const row = this.listing.shown.findIndex((entry) => entry.name === name);
    if (row < 0) return;
    this.selection.clear();
    this.selection.moveTo(row);
    this.grid.reveal(row);
    this.grid.focus();
  }

  /** @param {HTMLElement | Point} at */
  #menu(at) {
    const entries = this.selection.selectedOrActive;
    const items = entryMenu(this.path, entries, { run: (name) => this.run(name), open: (entry) => this.openEntry(entry) });
    if (items.length) showMenu(items, at, this.grid.element);
  }

  /** @param {Entry} entry */
  activate(entry) {
    const index = this.listing.shown.indexOf(entry);
    if (index < 0) return;
    this.selection.moveTo(index);
    this.grid.reveal(index);
  }

  /** @param {string} text */
  #filter(text) {
    this.statusBar.filter(text);
    this.grid.element.scrollTop = 0;
  }

  async #scrolled() {
    const { listing } = this;
    this.onScroll();
    try {
      await listing.prefetch(this.grid.list.range().last);
    } catch (error) {
      if (!listing.closed && !isAbort(error)) notifyError(error);
    }
  }

  #changed() {
    const { listing } = this;
    this.selection.follow(listing.shown, (name) => listing.byName.has(name));
    this.grid.show(listing);
    const empty = listing.complete && !listing.count;
    if (empty) this.placeholder.showEmpty({ mayUpload: session.mayIn(listing.path, "upload") });
    else if (!listing.shown.length) this.placeholder.show(listing.isLoadingAll ? "" : "search", t(listing.isLoadingAll ? "searching" : listing.complete ? "noMatch" : "noMatchLoaded"));
    else {
      this.placeholder.hide();
      this.grid.element.hidden = false;
      this.grid.list.draw(true);
    }
    this.statusBar.update();
  }

  #selectionChanged() {
    const { selected } = this.selection;
    this.toolbar.update(selected);
    if (selected.length !== this.announcedCount) {
      this.announcedCount = selected.length;
      if (selected.length > 1) announce(t("selected", { count: selected.length }));
    }
  }

  #hideGrid() {
    this.grid.element.hidden = true;
    this.statusBar.clear();
  }

  /** @param {unknown} error */
  #failed(error) {
    if (error instanceof SignedOut) return;
    this.placeholder.showError(error, this.path, () => this.refresh());
    listable(this.listing, error).then((may) => (may ? this.open(this.path, this.position) : undefined));
  }
}
