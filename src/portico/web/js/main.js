/** Puts the page together: who is signed in decides what stands in it, and the address which folder. */

import { whoAmI } from "./api.js";
import { fill, make } from "./dom.js";
import { watchDrops } from "./dropping.js";
import { FolderView } from "./folder.js";
import { fromInput } from "./gathering.js";
import { icon } from "./icons.js";
import { showKeys, watchKeys } from "./keys.js";
import { showMenu, toggleMenu } from "./menu.js";
import { announce, clearNotices, complain, placeNotices } from "./notices.js";
import { fromHash, join, link, nameOf, parent, split } from "./paths.js";
import { Queue } from "./queue.js";
import { session } from "./session.js";
import { showSignIn } from "./signin.js";
import { keepLanguage, language, LANGUAGES, loadTexts, t } from "./texts.js";
import { Tray } from "./tray.js";

const REMEMBER_AFTER = 150;

const KEYS = { F2: "rename", Delete: "remove", Backspace: "up", Escape: "clear", d: "download", m: "move", c: "copy", u: "uploadFiles", "Shift+u": "uploadFolder", n: "newFolder", "/": "filter", r: "refresh", a: "automate" };

class Page {
  constructor() {
    this.place = document.getElementById("page");
    this.queue = new Queue();
    this.tray = new Tray(this.queue);
    this.folder = new FolderView({ onUpload: (kind) => this.inputs[kind].click() });
    this.inputs = { files: this.#input({}), folder: this.#input({ webkitdirectory: true }) };
    placeNotices();
    document.body.append(this.tray.element, ...Object.values(this.inputs));
    history.scrollRestoration = "manual";
    this.#watch();
  }

  start() {
    if (session.isOpen) {
      this.#showFolders();
      // Rights may have changed since the tokens were issued; a session that has ended shows itself here.
      whoAmI().then(({ rights }) => session.setRights(rights) && this.#route(history.state), () => undefined);
    } else showSignIn(this.place);
  }

  #watch() {
    session.addEventListener("open", () => this.#showFolders());
    session.addEventListener("end", ({ detail }) => this.#ended(detail));
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && session.isOpen) this.folder.refresh({ gentle: true });
    });
    addEventListener("popstate", ({ state }) => this.#route(state));
    addEventListener("beforeunload", (event) => {
      if (this.queue.isBusy) event.preventDefault();
    });
    this.queue.addEventListener("stored", ({ detail }) => this.#stored(detail));
    let due = 0;
    this.folder.onScrolled = () => {
      clearTimeout(due);
      due = setTimeout(() => this.#remember(), REMEMBER_AFTER);
    };
    this.folder.onLeave = () => this.#remember();
    addEventListener("pagehide", () => this.#remember());
    watchDrops({
      mayDrop: () => session.may("upload") && !document.querySelector("dialog[open]"),
      target: () => ({ path: this.folder.path, label: this.folder.path === "/" ? t("root") : nameOf(this.folder.path) }),
      onUploads: (uploads) => this.#upload(uploads),
    });
    watchKeys((key) => {
      if (!session.isOpen) return undefined;
      if (key === "?") return showKeys;
      return key in KEYS ? () => this.folder.run(KEYS[key]) : undefined;
    });
  }

  #input(options) {
    const input = make("input", { type: "file", multiple: true, hidden: true, ...options, onchange: () => {
      this.#upload(fromInput(input.files, this.folder.path));
      input.value = "";
    } });
    return input;
  }

  #upload(uploads) {
    if (!uploads.length) return;
    this.queue.add(this.folder.listing, uploads);
    announce(t("uploadStarted", { count: uploads.length }));
  }

  /** Show what has come without asking for the whole folder again. */
  #stored(item) {
    const { listing } = this.folder;
    const steps = split(item.folder).slice(split(listing.path).length);
    if (steps.reduce(join, listing.path) !== item.folder) return;
    if (steps.length) listing.put({ name: steps[0], folder: true, type: "folder" });
    else listing.put({ name: item.stored, folder: false, type: item.file.type || "application/octet-stream", size: item.size, modified: new Date().toISOString() });
  }

  #showFolders() {
    const menu = make("button", { type: "button", class: "quiet", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => toggleMenu(this.#userMenu(menu), menu) }, icon("user"), make("bdi", {}, session.username), icon("down"));
    const header = make("header", { class: "top" },
      make("a", { class: "brand", href: "#/", "aria-label": t("toRoot") }, icon("logoSolid"), make("span", {}, "Portico")),
      make("button", { type: "button", class: "quiet round for-keyboards", "aria-label": t("keys"), title: `${t("keys")} (?)`, onclick: showKeys }, icon("keyboard")), menu);
    fill(this.place, header, this.folder.element);
    this.shown = "";
    this.#route(history.state);
  }

  #userMenu(opener) {
    const languages = Object.entries(LANGUAGES).map(([code, label]) => ({ label, checked: code === language(), run: () => { keepLanguage(code); location.reload(); } }));
    const choose = () => showMenu(languages, opener);
    return [{ label: t("languageNow", { name: LANGUAGES[language()] }), icon: "globe", submenu: true, run: choose }, { label: t("keys"), icon: "keyboard", key: "?", class: "for-keyboards", run: showKeys }, { label: t("restDocs"), icon: "book", href: "/backend/docs" }, { label: t("signOut"), icon: "leave", run: () => this.#signOut() }];
  }

  async #signOut() {
    if (this.queue.isBusy && !window.confirm(t("signOutWhileUploading"))) return;
    this.queue.clear();
    await session.signOut();
  }

  #ended({ asked, username }) {
    this.folder.listing.close();
    clearNotices();
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    showSignIn(this.place, asked ? { notice: t("signedOut") } : { notice: t("sessionEnded"), username });
  }

  /** @param {{scroll?: number, row?: string, count?: number} | null} state kept with the address by `#remember` */
  #route(state) {
    if (!session.isOpen) return;
    let path = fromHash(location.hash);
    if (path !== this.shown) clearNotices();
    if (path === null) {
      history.replaceState(null, "", link("/"));
      [path, state] = ["/", null];
      complain(new Error(t("badAddress")));
    }
    if (!state && this.shown && parent(this.shown) === path) state = { row: nameOf(this.shown) };
    this.shown = path;
    this.folder.open(path, state);
  }

  #remember() {
    if (fromHash(location.hash) === this.folder.path) history.replaceState(this.folder.place, "");
  }
}

await loadTexts();
new Page().start();
