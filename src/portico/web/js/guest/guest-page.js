/** The page of an opened link: a folder, a file, or a place to send files to. */

import { FolderView } from "../folder/folder-view.js";
import { download } from "../folder/downloads.js";
import { Listing } from "../folder/listing.js";
import { preview } from "../dialogs/preview.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { t } from "../i18n/i18n.js";
import { fromHash, join, nameOf, split } from "../paths.js";
import { searchIn } from "../search/search-address.js";
import { session } from "../api/session.js";
import { bdi, fill, make } from "../ui/dom.js";
import { icon, iconFor } from "../ui/icons.js";
import { announce, clearNotices, mountNotices } from "../ui/notices.js";
import { mayDrag, watchDropZone } from "../uploads/drop-zone.js";
import { filesFromInput } from "../uploads/picked-files.js";
import { UploadPanel } from "../uploads/upload-panel.js";
import { UploadQueue } from "../uploads/upload-queue.js";
import { SentFiles } from "./sent-files.js";
import { brand, card, openLink } from "./opening.js";

/** @import { Child, Entry, PickedFile, UploadItem } from "../types.js" */
/** @typedef {import("../api/guest-session.js").Visit} Visit */

export class GuestPage {
  constructor() {
    this.container = /** @type {HTMLElement} */ (document.getElementById("page"));
    this.queue = new UploadQueue();
    this.sent = new SentFiles(this.queue);
    this.inputs = { files: this.#input({}), folder: this.#input({ webkitdirectory: true }) };
    this.folder = new FolderView({ onUpload: (kind) => this.inputs[kind].click(), onLeave: () => undefined, onScroll: () => undefined });
    mountNotices();
    document.body.append(new UploadPanel(this.queue).element, ...Object.values(this.inputs));
    session.addEventListener("open", () => this.#show());
    session.addEventListener("end", () => this.#ended());
    this.queue.addEventListener("stored", (event) => this.#stored(/** @type {CustomEvent<UploadItem[]>} */ (event).detail));
    this.queue.addEventListener("idle", () => this.#idle());
    addEventListener("popstate", () => this.#route());
    addEventListener("beforeunload", (event) => {
      if (this.queue.isBusy) event.preventDefault();
    });
    watchDropZone({
      mayDrop: () => session.mayIn(this.#target, "upload") && !document.querySelector("dialog[open]"),
      target: () => ({ path: this.#target, label: this.visit?.title || this.visit?.name || t("root") }),
      onDrop: (files) => this.#upload(files),
    });
  }

  /** @returns {Visit | null} */
  get visit() {
    return /** @type {any} */ (session).visit;
  }

  start() {
    if (session.isOpen) this.#show();
    else openLink(this.container);
  }

  #ended() {
    this.folder.listing.close();
    clearNotices();
    for (const dialog of document.querySelectorAll("dialog")) dialog.close();
    openLink(this.container);
  }

  get #target() {
    return session.may("list") ? this.folder.path : "/";
  }

  #show() {
    const { visit } = this;
    if (!visit) return;
    document.title = t("pageTitle", { name: visit.title || visit.name || t("guestTitle") });
    if (visit.file) fill(this.container, this.#fileCard(visit));
    else if (session.may("list")) {
      const header = make("header", { class: "app-bar" }, brand(), make("div", { class: "guest-intro" }, make("h1", {}, bdi(visit.title || visit.name)), make("p", {}, ...this.#intro(visit))));
      header.firstElementChild?.classList.remove("large");
      fill(this.container, header, this.folder.element);
      this.#route();
    } else fill(this.container, this.#requestCard(visit));
  }

  #route() {
    if (!session.isOpen || !session.may("list") || this.visit?.file) return;
    this.folder.show(fromHash(location.hash) ?? "/", null, { search: searchIn(location.hash) });
  }

  /** @param {Visit} visit @returns {Child[]} */
  #intro({ note, owner, kind, linkExpiresAt }) {
    const until = linkExpiresAt ? ` · ${t("linkUntil", { date: dateTime(linkExpiresAt) })}` : "";
    return [note ? make("span", { class: "note" }, note) : null, make("span", { class: "hint" }, t(kind === "request" ? "requestFrom" : "guestFrom", { name: owner }) + until)];
  }

  /** @param {Visit} visit */
  #fileCard(visit) {
    const { file, title, name } = visit;
    /** @type {Entry} */
    const entry = { name, folder: false, type: file?.contentType ?? "", size: file?.size, modified: file?.lastModified };
    const show = () => preview("/", [entry], entry, { onDownload: () => download("/", [entry]), onShow: () => undefined });
    return card([icon(iconFor(entry)), make("h1", {}, bdi(title || name)), make("p", {}, ...(title ? [bdi(name), " · "] : []), bytes(entry.size ?? 0)), ...this.#intro(visit),
      make("button", { type: "button", class: "primary wide", onclick: () => download("/", [entry]) }, icon("download"), t("download")),
      make("button", { type: "button", class: "wide", onclick: show }, icon("open"), t("preview"))]);
  }

  /** @param {Visit} visit */
  #requestCard(visit) {
    const { title, owner, types, filesLeft, bytesLeft, hasOwnFolder } = visit;
    const rules = [types.length ? t("requestTypes", { types: types.join(", ") }) : "", filesLeft === null ? "" : t("requestFiles", { count: filesLeft }), bytesLeft === null ? "" : t("requestBytes", { size: bytes(bytesLeft) })].filter(Boolean);
    return card([make("h1", {}, title || t("requestHeading", { name: owner })), ...this.#intro(visit),
      make("div", { class: "request-drop" }, icon("upload"), make("p", {}, t(mayDrag() ? "requestHint" : "requestHintTouch")),
        make("button", { type: "button", class: "primary wide", onclick: () => this.inputs.files.click() }, t("requestChoose")),
        hasOwnFolder ? make("button", { type: "button", class: "wide", onclick: () => this.inputs.folder.click() }, t("uploadFolder")) : null),
      ...rules.map((rule) => make("p", { class: "hint" }, rule)),
      this.sent.element]);
  }

  /** @param {{webkitdirectory?: boolean}} options */
  #input(options) {
    const input = make("input", { type: "file", multiple: true, hidden: true, ...options, onchange: () => {
      this.#upload(filesFromInput(input.files, this.#target));
      input.value = "";
    } });
    return input;
  }

  /** @param {PickedFile[]} picked */
  #upload(picked) {
    // Without a folder of their own, senders send files only.
    const flat = !session.may("list") && !this.visit?.hasOwnFolder;
    const files = flat ? picked.filter(({ file }) => file).map((each) => ({ ...each, folder: "/" })) : picked.filter(({ file }) => file || session.may("list"));
    if (!files.length) return;
    const { listing } = this.folder;
    this.queue.add(session.may("list") ? listing : new Listing("/"), files);
    announce(t("uploadStarted", { count: files.length }));
  }

  /** The card of a file request lists what was sent: the panel, which would hide it, is for what is left to do. */
  #idle() {
    if (!session.may("list") && this.queue.items.every(({ state }) => state === "done")) this.queue.clear();
  }

  /** @param {UploadItem[]} items */
  #stored(items) {
    if (!session.may("list")) return;
    const { listing } = this.folder;
    const depth = split(listing.path).length;
    /** @type {Entry[]} */
    const entries = [];
    for (const { folder, file, stored, size } of items) {
      const below = split(folder).slice(depth);
      if (below.reduce(join, listing.path) !== folder) continue;
      if (below.length) entries.push({ name: below[0], folder: true, type: "folder" });
      else if (file) entries.push({ name: stored || nameOf(file.name), folder: false, type: file.type || "application/octet-stream", size, modified: new Date(file.lastModified).toISOString() });
    }
    listing.put(...entries);
  }
}
