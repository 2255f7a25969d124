/** Sets up the page: the sign-in or a folder, which the URL's hash names. */

import { whoAmI } from "./api/client.js";
import { fill, make } from "./ui/dom.js";
import { watchDropZone } from "./uploads/drop-zone.js";
import { FolderView } from "./folder/folder-view.js";
import { filesFromInput } from "./uploads/picked-files.js";
import { highlight, folderAt } from "./folder/row-drag.js";
import { Listing } from "./folder/listing.js";
import { icon } from "./ui/icons.js";
import { JobPanel } from "./jobs/job-panel.js";
import { jobs } from "./jobs/jobs.js";
import { showShortcuts, watchShortcuts } from "./keyboard-shortcuts.js";
import { showMenu, toggleMenu } from "./ui/menu.js";
import { announce, clearNotices, notifyError, mountNotices } from "./ui/notices.js";
import { fromHash, join, link, nameOf, parent, split } from "./paths.js";
import { offerUndo } from "./uploads/replaced-files.js";
import { UploadQueue } from "./uploads/upload-queue.js";
import { searchIn } from "./search/search-address.js";
import { session } from "./api/session.js";
import { showLinks } from "./dialogs/links.js";
import { showSignIn } from "./sign-in.js";
import { isInvitation, showInvitation } from "./invitation.js";
import { showAccountDialog } from "./dialogs/account.js";
import { keepsDeleted } from "./config.js";
import { showRewind } from "./dialogs/rewind.js";
import { showTrash } from "./dialogs/trash.js";
import { language, LANGUAGES, loadMessages, storeLanguage, t } from "./i18n/i18n.js";
import { UploadPanel } from "./uploads/upload-panel.js";
import { visible } from "./visible-text.js";

/** @import { Command, Entry, MenuItem, PickedFile, ScrollPosition, UploadItem } from "./types.js" */

const SCROLL_DEBOUNCE = 150;
/** How many folders a notice names. */
const MAX_FOLDERS = 5;

/** @type {Record<string, Command>} */
const SHORTCUTS = { F2: "rename", Delete: "remove", Backspace: "up", Escape: "clear", d: "download", "Shift+d": "downloadFolder", m: "move", c: "copy", l: "copyLink", i: "details", "Shift+i": "folderDetails", h: "activity", "Shift+h": "folderActivity", u: "uploadFiles", "Shift+u": "uploadFolder", n: "newFolder", "/": "filter", g: "gridView", s: "search", r: "refresh", a: "automate" };

class Page {
  constructor() {
    this.container = /** @type {HTMLElement} */ (document.getElementById("page"));
    /** The path that is shown, or empty. */
    this.shown = "";
    this.queue = new UploadQueue();
    this.uploadPanel = new UploadPanel(this.queue);
    this.jobPanel = new JobPanel();
    this.folder = new FolderView({
      onUpload: (kind) => this.inputs[kind].click(),
      onLeave: () => this.#remember(),
      onScroll: () => this.#rememberSoon(),
    });
    this.timer = 0;
    /** @type {Promise<void> | null} */
    this.reading = null;
    this.inputs = { files: this.#input({}), folder: this.#input({ webkitdirectory: true }) };
    mountNotices();
    document.body.append(this.jobPanel.element, this.uploadPanel.element, ...Object.values(this.inputs));
    history.scrollRestoration = "manual";
    this.#watch();
  }

  async start() {
    if (isInvitation()) {
      await showInvitation(this.container);
      return;
    }
    const isKept = session.isOpen;
    await session.resume();
    if (!session.isOpen) {
      showSignIn(this.container);
      return;
    }
    this.#showFolders();
    if (isKept) this.#readAccess();
  }

  /** Rights may have changed since the session was read. One that has ended is noticed here too. */
  #readAccess() {
    if (!session.isOpen) return;
    this.reading ??= whoAmI().then((access) => session.setAccess(access), () => undefined).finally(() => {
      this.reading = null;
    });
  }

  #watch() {
    session.addEventListener("open", () => this.#showFolders());
    session.addEventListener("change", () => this.#route(history.state, { reload: true }));
    session.addEventListener("refused", () => this.#readAccess());
    session.addEventListener("end", (event) => this.#ended(/** @type {CustomEvent} */ (event).detail));
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState !== "visible" || !session.isOpen) return;
      this.#readAccess();
      this.folder.refresh({ quiet: true });
    });
    addEventListener("online", () => session.isOpen && this.folder.refresh({ quiet: true }));
    addEventListener("popstate", ({ state }) => this.#route(state));
    addEventListener("beforeunload", (event) => {
      this.#remember(); // a reload ignores what `pagehide` stores
      if (this.queue.isBusy || jobs.queued) event.preventDefault();
    });
    jobs.addEventListener("ended", () => this.folder.refresh({ quiet: true }));
    this.queue.addEventListener("stored", (event) => this.#stored(/** @type {CustomEvent<UploadItem[]>} */ (event).detail));
    offerUndo(this.queue, () => this.folder.refresh({ quiet: true }));
    addEventListener("pagehide", () => this.#remember());
    watchDropZone({
      mayDrop: () => session.isOpen && session.may("upload") && !document.querySelector("dialog[open]"),
      target: (event) => {
        const { path, label, element } = folderAt(this.folder, event) ?? { path: this.folder.path, label: this.folder.path === "/" ? t("root") : nameOf(this.folder.path) };
        return { path, label, element, refusal: session.mayIn(path, "upload") ? "" : t("dropElsewhere", { folders: foldersWith("upload") }) };
      },
      onTarget: highlight,
      onDrop: (files, path) => this.#upload(files, path),
    });
    watchShortcuts((key) => {
      if (!session.isOpen) return undefined;
      if (key === "?") return showShortcuts;
      const { searchView } = this.folder;
      // The entries of the folder are hidden: nothing happens to them.
      if (searchView.isOpen) return key === "Escape" ? () => searchView.close() : ["/", "s"].includes(key) ? () => searchView.form.field.focus() : undefined;
      return key in SHORTCUTS ? () => this.folder.run(SHORTCUTS[key]) : undefined;
    });
  }

  /** @param {{webkitdirectory?: boolean}} options */
  #input(options) {
    const input = make("input", { type: "file", multiple: true, hidden: true, ...options, onchange: () => {
      this.#upload(filesFromInput(input.files, this.folder.path));
      input.value = "";
    } });
    return input;
  }

  /** @param {PickedFile[]} files @param {string} [path] of the folder that contains all targets */
  #upload(files, path = this.folder.path) {
    if (!files.length) return;
    const { listing } = this.folder;
    this.queue.add(path.startsWith(listing.path) ? listing : new Listing(path), files);
    announce(t("uploadStarted", { count: files.length }));
  }

  /** Show new files without loading the folder again. @param {UploadItem[]} items */
  #stored(items) {
    const { listing } = this.folder;
    const depth = split(listing.path).length;
    /** @type {Entry[]} */
    const entries = [];
    for (const { folder, file, stored, size } of items) {
      const folders = split(folder).slice(depth);
      if (folders.reduce(join, listing.path) !== folder) continue;
      if (folders.length) entries.push({ name: folders[0], folder: true, type: "folder" });
      else if (file) entries.push({ name: stored, folder: false, type: file.type || "application/octet-stream", size, modified: new Date(file.lastModified).toISOString() });
    }
    listing.put(...entries);
  }

  #showFolders() {
    const menu = make("button", { type: "button", class: "quiet", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => toggleMenu(this.#userMenu(menu), menu) }, icon("user"), make("bdi", {}, session.username), icon("down"));
    const header = make("header", { class: "app-bar" },
      make("a", { class: "brand", href: "#/", "aria-label": t("toRoot") }, icon("logoSolid"), make("span", {}, "Portico")),
      make("button", { type: "button", class: "quiet round keyboard-only", "aria-label": t("keys"), title: `${t("keys")} (?)`, onclick: showShortcuts }, icon("keyboard")), menu);
    fill(this.container, header, this.folder.element);
    this.shown = "";
    // The folder comes first: what else is asked would keep it waiting.
    this.#route(history.state).finally(() => jobs.load());
  }

  /** @param {HTMLElement} opener @returns {MenuItem[]} */
  #userMenu(opener) {
    const languages = Object.entries(LANGUAGES).map(([code, label]) => ({ label, checked: code === language(), run: () => { storeLanguage(code); location.reload(); } }));
    const choose = () => showMenu(languages, opener);
    return [{ label: t("account"), icon: "user", run: showAccountDialog }, ...(session.may("share") ? [/** @type {MenuItem} */ ({ label: t("links"), icon: "share", run: showLinks })] : []), { label: t("languageNow", { name: LANGUAGES[language()] }), icon: "globe", submenu: true, run: choose }, { label: t("keys"), icon: "keyboard", key: "?", class: "keyboard-only", run: showShortcuts }, ...(session.may("list") ? [{ label: t("trash"), icon: /** @type {const} */ ("trash"), run: () => showTrash(() => this.folder.refresh({ quiet: true })) }] : []), ...(keepsDeleted && session.may("delete") ? [{ label: t("rewind"), icon: /** @type {const} */ ("history"), run: () => showRewind(this.folder.path, () => this.folder.refresh({ quiet: true })) }] : []), { label: t("restDocs"), icon: "book", href: "/backend/docs" }, { label: t("signOut"), icon: "leave", run: () => this.#signOut() }];
  }

  async #signOut() {
    if (this.queue.isBusy && !window.confirm(t("signOutWhileUploading"))) return;
    // While the session can still remove what the gateway has of them.
    await this.queue.clear();
    await session.signOut();
  }

  /** @param {{requested: boolean, username: string}} detail */
  #ended({ requested, username }) {
    this.folder.listing.close();
    this.folder.searchView.forget({ address: requested });
    clearNotices();
    for (const dialog of document.querySelectorAll("dialog")) dialog.close();
    showSignIn(this.container, requested ? { notice: t("signedOut") } : { notice: t("sessionEnded"), username });
  }

  /** @param {ScrollPosition | null} position stored in the history by `#remember` */
  async #route(position, { reload = false } = {}) {
    if (!session.isOpen) return;
    let path = fromHash(location.hash);
    if (path !== this.shown) clearNotices();
    if (path === null) {
      history.replaceState(null, "", link("/"));
      path = "/";
      position = null;
      reload = true;
      notifyError(new Error(t("badAddress")));
    }
    const { path: previous } = this.folder;
    if (!position && this.shown && previous !== "/" && parent(previous) === path) position = { row: nameOf(previous) };
    this.shown = path;
    await this.folder.show(path, position, { reload, search: searchIn(location.hash) });
  }

  #rememberSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#remember(), SCROLL_DEBOUNCE);
  }

  /** Store the position in the history entry of this folder. */
  #remember() {
    if (fromHash(location.hash) === this.folder.path) history.replaceState(this.folder.position, "");
  }
}

/** Where a right is given, as a part of a sentence. @param {string} right */
function foldersWith(right) {
  const names = session.mounts.with(right).map(({ path }) => (path === "/" ? t("root") : visible(path)));
  return [...names.slice(0, MAX_FOLDERS), ...(names.length > MAX_FOLDERS ? ["…"] : [])].join(", ");
}

await loadMessages();
new Page().start();
