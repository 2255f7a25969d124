/** In a guest's page this takes the place of `session.js`: the token is that of an opened share link. */

import { SignedOut } from "./errors.js";

/** @typedef {{token: string, kind: string, owner: string, title: string, note: string, name: string, rights: string[], types: string[], expiresAt: string, linkExpiresAt: string | null, hasOwnFolder: boolean, filesLeft: number | null, bytesLeft: number | null, file?: import("../types.js").EntryBody}} Visit */

/** Kept for a reload only, and apart for each link. */
const STORAGE_KEY = `portico.guest:${location.pathname}`;

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

/** Emits `open`, and `end`. */
class GuestSession extends EventTarget {
  constructor() {
    super();
    /** @type {Visit | null} */
    this.visit = kept();
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

  /** @param {...string} rights */
  may(...rights) {
    return rights.every((right) => this.visit?.rights.includes(right));
  }

  /** @param {Visit} visit */
  open(visit) {
    this.visit = visit;
    keep(visit);
    this.dispatchEvent(new Event("open"));
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
    this.visit = null;
    keep(null);
    this.dispatchEvent(new CustomEvent("end", { detail: { requested: false, username: "" } }));
  }
}

export const session = new GuestSession();
