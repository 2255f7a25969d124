/** The view of one folder: its way, its entries, and what can be done with them. */

import * as actions from "./actions.js";
import { showAutomation } from "./automate.js";
import { crumbs } from "./crumbs.js";
import { fill, isTyping, make } from "./dom.js";
import { Foot } from "./foot.js";
import { Grid } from "./grid.js";
import { icon } from "./icons.js";
import { Listing } from "./listing.js";
import { showMenu } from "./menu.js";
import { announce, complain } from "./notices.js";
import { join, link, nameOf, parent } from "./paths.js";
import { preview } from "./preview.js";
import { explained, isAbort, SignedOut } from "./problems.js";
import { Selection } from "./selection.js";
import { session } from "./session.js";
import { t } from "./texts.js";
import { entryMenu, Toolbar } from "./toolbar.js";

const AHEAD = 100;
const SLOW = 200;
/** Larger folders are looked at again only when somebody asks. */
const MOST_REFRESHED = 10_000;

export class FolderView {
  /** @param {{onUpload: (kind: "files" | "folder") => void}} handlers */
  constructor({ onUpload }) {
    this.onUpload = onUpload;
    this.listing = new Listing("/");
    this.selection = new Selection();
    this.grid = new Grid(this.selection, {
      onOpen: (entry) => this.openEntry(entry),
      onMenu: (at) => this.#menu(at),
      onSort: (order) => this.foot.sort(order),
      onScroll: () => this.#scrolled(),
      onAll: () => (this.selection.size ? this.selection.clear() : this.selection.all()),
    });
    this.toolbar = new Toolbar({ run: (name) => this.run(name), onFilter: (text) => this.#filter(text) });
    this.way = make("div", { class: "way" });
    this.state = make("div", { class: "state", hidden: true });
    this.foot = new Foot({ onAll: () => this.grid.focus() });
    this.element = make("main", { class: "folder-view", id: "main" }, this.way, this.toolbar.element, this.grid.element, this.state, this.foot.element);
    this.selection.addEventListener("change", () => this.#selectionChanged());
  }

  get path() {
    return this.listing.path;
  }

  /** @param {{scroll?: number, row?: string, count?: number} | null} [before] where the reader was in it */
  async open(path, before = null) {
    this.listing.close();
    const listing = new Listing(path);
    this.listing = listing;
    this.selection.clear();
    this.foot.follow(listing);
    document.title = t("pageTitle", { name: path === "/" ? t("root") : nameOf(path) });
    fill(this.way, crumbs(path));
    this.toolbar.reset({ mayList: session.may("list") });
    if (!session.may("list")) {
      this.#showState("lock", t(session.may("upload") ? "dropBox" : "mayNotList"));
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => this.#showState("", t("loading")), SLOW);
    try {
      await listing.open(before?.count);
    } catch (error) {
      if (!listing.closed) this.#failed(error);
      return;
    } finally {
      clearTimeout(slow);
      if (!listing.closed) this.element.removeAttribute("aria-busy");
    }
    if (listing.closed) return;
    listing.addEventListener("change", () => this.#changed());
    this.selection.active = 0;
    this.#changed();
    this.grid.element.scrollTop = before?.scroll ?? 0;
    this.grid.list.draw(true);
    const row = listing.shown.findIndex((entry) => entry.name === before?.row);
    if (row >= 0) {
      this.selection.moveTo(row);
      this.grid.reveal(row);
    }
    if (!isTyping(document.activeElement) && !document.querySelector("dialog[open]")) (listing.count ? this.grid.element : this.state.querySelector("button, a") ?? this.grid.element).focus({ preventScroll: true });
    announce(`${path === "/" ? t("root") : nameOf(path)}: ${this.foot.status.textContent}`);
  }

  /** Look again, without losing the place, the selection or an open dialog. `gentle`: nobody has asked for it. */
  async refresh({ gentle = false } = {}) {
    const { listing } = this;
    if (!listing.opened) {
      if (!gentle) await this.open(this.path, this.place);
      return;
    }
    if (listing.isLoadingAll || this.refreshing === listing || (gentle && listing.count > MOST_REFRESHED)) return;
    this.refreshing = listing;
    this.toolbar.busy = !gentle;
    const before = this.grid.anchor;
    try {
      if (await listing.refresh()) this.grid.restore(before);
      if (!gentle) announce(t("refreshed"));
    } catch (error) {
      if (!listing.closed) this.#notRefreshed(error, gentle);
    } finally {
      this.refreshing = null;
      this.toolbar.busy = false;
    }
  }

  #notRefreshed(error, gentle) {
    if (["not-found", "not-a-folder", "forbidden"].includes(error.code)) {
      this.listing.opened = false;
      this.#failed(error);
    } else if (!gentle) complain(error);
  }

  /** What it takes to come back to here. */
  get place() {
    return { scroll: this.grid.element.scrollTop, count: this.grid.element.scrollTop ? this.grid.list.range().last : 0, row: this.listing.shown[this.selection.active]?.name };
  }

  /** @param {import("./listing.js").Entry} entry */
  openEntry(entry) {
    if (entry.folder) this.#leaveFor(join(this.path, entry.name));
    else if (session.may("download")) this.#preview(entry);
  }

  /** Do something by its name, if it is offered here and now. */
  async run(name) {
    const { listing, selection } = this;
    const entries = selection.meant;
    if (["download", "rename", "move", "copy", "remove"].includes(name)) {
      if (!actions.isOffered(name, entries)) return;
      if (name === "download") await actions.download(listing.path, entries);
      else this.#goTo(await actions[name](listing, entries));
    } else if (name === "newFolder") {
      if (actions.isOffered(name)) this.#goTo(await actions.newFolder(listing));
    } else if (name === "uploadFiles" || name === "uploadFolder") {
      if (actions.isOffered("upload")) this.onUpload(name === "uploadFiles" ? "files" : "folder");
    } else if (name === "automate") await showAutomation(this.path);
    else if (name === "refresh") await this.refresh();
    else if (name === "clear") selection.clear();
    else if (name === "filter") this.toolbar.field.focus();
    else if (name === "up" && this.path !== "/") this.#leaveFor(parent(this.path));
    if (name === "focusList" || name === "clear") this.grid.focus();
  }

  #leaveFor(path) {
    this.onLeave?.();
    location.hash = link(path);
  }

  #goTo(name) {
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

  #menu(at) {
    const entries = this.selection.meant;
    const items = entryMenu(entries, (name) => this.run(name));
    const [entry] = entries;
    if (entries.length === 1 && (entry.folder || session.may("download"))) {
      items.unshift({ label: t(entry.folder ? "open" : "preview"), icon: entry.folder ? "folderSolid" : "open", key: "↵", run: () => this.openEntry(entry) });
    }
    if (items.length) showMenu(items, at, this.grid.element);
  }

  #preview(entry) {
    const files = this.listing.shown.filter((other) => !other.folder);
    const onShow = (shown) => {
      const index = this.listing.shown.indexOf(shown);
      this.selection.moveTo(index);
      this.grid.reveal(index);
    };
    preview(this.path, files, entry, { onShow, onDownload: (file) => actions.download(this.path, [file]) });
  }

  #filter(text) {
    this.foot.filter(text);
    this.grid.element.scrollTop = 0;
  }

  async #scrolled() {
    const { listing } = this;
    this.onScrolled?.();
    if (!listing.opened || listing.complete || listing.filter || listing.isLoadingAll) return;
    if (this.grid.list.range().last < listing.count - AHEAD) return;
    try {
      await listing.more();
    } catch (error) {
      if (!listing.closed && !isAbort(error)) complain(error);
    }
  }

  #changed() {
    const { listing } = this;
    this.selection.follow(listing.shown, (name) => listing.byName.has(name));
    this.grid.show(listing);
    const empty = listing.complete && !listing.count;
    if (empty) this.#showState("folderSolid", t("emptyFolder"), session.may("upload") ? [t("emptyHint")] : []);
    else if (!listing.shown.length) this.#showState(listing.isLoadingAll ? "" : "search", t(listing.isLoadingAll ? "searching" : listing.complete ? "noMatch" : "noMatchLoaded"));
    else {
      this.state.hidden = true;
      this.grid.element.hidden = false;
      this.grid.list.draw(true);
    }
    this.foot.update();
  }

  #selectionChanged() {
    const { chosen } = this.selection;
    this.toolbar.update(chosen);
    if (chosen.length !== this.said) {
      this.said = chosen.length;
      if (chosen.length > 1) announce(t("selected", { count: chosen.length }));
    }
  }

  #failed(error) {
    if (error instanceof SignedOut) return;
    const home = make("a", { class: "button", href: link(parent(this.path)) }, t("upwards"));
    const again = make("button", { type: "button", onclick: () => this.refresh() }, t("tryAgain"));
    const missing = ["not-found", "invalid-path", "not-a-folder"].includes(error.code);
    const [drawing, title] = missing ? ["search", t("missingFolder")] : error.code === "forbidden" ? ["lock", t("mayNotList")] : ["warning", t("cannotShow")];
    this.#showState(drawing, title, explained(error), missing && this.path !== "/" ? home : again);
    this.state.querySelector("a, button").focus();
    announce(title);
  }

  #showState(drawing, title, text = [], action = null) {
    this.grid.element.hidden = true;
    this.state.hidden = false;
    this.foot.clear();
    fill(this.state, drawing ? icon(drawing) : make("div", { class: "spinner", "aria-hidden": "true" }), make("h2", {}, title), text.length ? make("p", {}, ...text) : null, action);
  }
}
