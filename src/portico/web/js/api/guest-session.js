/** In a guest's page this takes the place of `session.js`: the token is that of an opened share link. */

import { SignedOut } from "./errors.js";
import { gives, Mounts } from "./mounts.js";

/** @typedef {{token: string, kind: string, owner: string, title: string, note: string, name: string, rights: string[], mounts?: import("./mounts.js").Mount[], types: string[], expiresAt: string, linkExpiresAt: string | null, hasOwnFolder: boolean, sender?: string, filesLeft: number | null, bytesLeft: number | null, file?: import("../types.js").EntryBody}} Visit */

/** Kept for a reload only, and apart for each link. */
const STORAGE_KEY = `portico.guest:${location.pathname}`;
/** A sender with unfinished uploads: who opens the link again under the same name goes on with them. */
const senderKey = (/** @type {string} */ sender) => `portico.sender:${location.pathname}:${sender}`;

/** @returns {Visit | null} */
function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
  } catch {
    return null; // the storage is not allowed
  }
}

/** @param {Visit | null} visit */
function keep(visit) {
  try {
    if (visit) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(visit));
    else sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    // The storage is full or not allowed. After a reload, the link has to be opened again.
  }
}

/** The token of a former visit under the same name, if there are uploads to go on with. @param {string} sender @returns {string | null} */
function formerToken(sender) {
  try {
    const former = JSON.parse(localStorage.getItem(senderKey(sender)) ?? "null");
    return Date.now() < former?.until ? former.token : null;
  } catch {
    return null; // the storage is not allowed
  }
}

/** Emits `open`, and `end`. */
class GuestSession extends EventTarget {
  constructor() {
    super();
    /** @type {Visit | null} */
    this.visit = kept();
    this.mounts = new Mounts(this.visit);
    this.isGuest = true;
    /** The receipts of what this guest has sent. @type {{name: string, receipt: string}[]} */
    this.receipts = [];
    /** Asks for receipts. */
    this.uploadHeaders = { Prefer: "return=representation" };
  }

  /** @param {string} body of the answer to an upload */
  received(body) {
    if (!body.startsWith("{")) return;
    for (const { name, receipt } of JSON.parse(body).content ?? []) if (receipt) this.receipts.push({ name, receipt });
  }

  get isOpen() {
    return this.visit !== null;
  }

  /** Tells apart what the browser remembers of unfinished uploads. */
  get username() {
    return this.visit?.token.slice(-8) ?? "";
  }

  /** Whether these rights are given in any folder. @param {...string} rights */
  may(...rights) {
    return gives(this.visit?.rights ?? [], rights);
  }

  /** Whether they are given at this path. @param {string} path @param {...string} rights */
  mayIn(path, ...rights) {
    return this.mounts.allow(path, ...rights);
  }

  /** @param {Visit} visit @param {string} sender the name that was given */
  open(visit, sender = "") {
    this.visit = { ...visit, sender, token: formerToken(sender) ?? visit.token };
    this.mounts = new Mounts(this.visit);
    keep(this.visit);
    this.dispatchEvent(new Event("open"));
  }

  /** An upload has begun that can be gone on with until then. Only a token that shows nothing is kept. @param {number} until */
  keepFor(until) {
    const { visit } = this;
    if (visit?.kind === "request") localStorage.setItem(senderKey(visit.sender ?? ""), JSON.stringify({ token: visit.token, until }));
  }

  /** There is no unfinished upload any more. */
  finished() {
    try {
      localStorage.removeItem(senderKey(this.visit?.sender ?? ""));
    } catch {
      // The storage is not allowed.
    }
  }

  async token() {
    if (!this.visit) throw new SignedOut();
    return this.visit.token;
  }

  /** It cannot be renewed: the link has to be opened again. @param {string} _stale @returns {Promise<string>} */
  async renewed(_stale) {
    this.end();
    throw new SignedOut();
  }

  end() {
    if (!this.visit) return;
    this.finished();
    this.visit = null;
    keep(null);
    this.dispatchEvent(new CustomEvent("end", { detail: { requested: false, username: "" } }));
  }
}

export const session = new GuestSession();
