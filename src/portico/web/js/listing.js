/** The entries of one folder, as far as they are loaded. */

import { listPage } from "./api.js";
import { collator } from "./formats.js";

/** @typedef {{name: string, folder: boolean, type: string, size?: number, modified?: string}} Entry */

const FIRST_PAGE = 250;
const PAGE = 1000;
/** Rows beyond this would make the list higher than browsers can draw. */
export const MOST_LOADED = 500_000;

/** @returns {Entry} */
export const entryOf = (body) => ({
  name: body.name,
  folder: body.type === "DIRECTORY",
  type: body.contentType,
  size: body.size,
  modified: body.lastModified,
});

/** Emits `change` whenever `shown` may have changed. */
export class Listing extends EventTarget {
  constructor(path) {
    super();
    this.path = path;
    /** @type {Entry[]} in the order in which they came, or were sorted */
    this.entries = [];
    /** @type {Entry[]} what the filter leaves of them */
    this.shown = this.entries;
    /** @type {Map<string, Entry>} */
    this.byName = new Map();
    this.cursor = null;
    this.complete = false;
    /** Whether the first page is there. */
    this.opened = false;
    this.filter = "";
    /** @type {{key: "name" | "size" | "modified", descending: boolean}} */
    this.order = { key: "name", descending: false };
    this.aborter = new AbortController();
    this.pending = null;
  }

  get count() {
    return this.entries.length;
  }

  /** The first page, and as many more as make `atLeast` entries. */
  async open(atLeast = 0) {
    await this.#load(atLeast > FIRST_PAGE ? PAGE : FIRST_PAGE);
    if (this.complete) this.#sort();
    while (!this.complete && this.count < atLeast) await this.#load(PAGE);
    this.opened = true;
    this.#changed();
  }

  /** The next page, if there is one; asking again while it is on its way changes nothing. */
  async more() {
    if (this.complete || this.count >= MOST_LOADED) return;
    this.pending ??= this.#load(PAGE).finally(() => {
      this.pending = null;
    });
    await this.pending;
    this.#changed();
  }

  /** Everything, in people's order. */
  async all() {
    while (!this.complete && this.count < MOST_LOADED && !this.aborter.signal.aborted) await this.more();
    if (this.complete) this.#sort();
    this.#changed();
  }

  close() {
    this.aborter.abort();
  }

  get closed() {
    return this.aborter.signal.aborted;
  }

  /** @param {"name" | "size" | "modified"} key */
  sortBy(key) {
    if (!this.complete) return;
    this.order = { key, descending: this.order.key === key && !this.order.descending };
    this.#sort();
    this.#changed();
  }

  filterBy(text) {
    this.filter = text.trim().toLocaleLowerCase();
    this.#changed();
  }

  /** An entry came or changed. One that lies beyond what is loaded comes with its page. @param {Entry} entry */
  put(entry) {
    const old = this.byName.get(entry.name);
    if (old) Object.assign(old, entry);
    else {
      const compare = this.complete ? this.#comparison() : byCodePoint;
      const place = insertionPoint(this.entries, entry, compare);
      if (place === this.count && !this.complete) return;
      this.entries.splice(place, 0, entry);
      this.byName.set(entry.name, entry);
    }
    this.#changed();
  }

  /** @param {Iterable<string>} names */
  drop(names) {
    const gone = new Set(names);
    for (const name of gone) this.byName.delete(name);
    this.entries = this.entries.filter((entry) => !gone.has(entry.name));
    this.#changed();
  }

  async #load(size) {
    const { signal } = this.aborter;
    const page = await listPage(this.path, { cursor: this.cursor, size, signal });
    for (const body of page.content) {
      if (body.isCurrentFolder || this.byName.has(body.name)) continue;
      const entry = entryOf(body);
      this.entries.push(entry);
      this.byName.set(entry.name, entry);
    }
    this.cursor = page.nextCursor;
    this.complete = page.nextCursor === null;
  }

  #sort() {
    this.entries.sort(this.#comparison());
  }

  #comparison() {
    const { key, descending } = this.order;
    const names = collator();
    const sign = descending ? -1 : 1;
    const byName = (a, b) => names.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);
    const byKey = {
      name: byName,
      size: (a, b) => (a.size ?? 0) - (b.size ?? 0),
      modified: (a, b) => (a.modified ?? "").localeCompare(b.modified ?? ""),
    }[key];
    return (a, b) => b.folder - a.folder || sign * byKey(a, b) || byName(a, b);
  }

  #changed() {
    this.shown = this.filter
      ? this.entries.filter((entry) => entry.name.toLocaleLowerCase().includes(this.filter))
      : this.entries;
    this.dispatchEvent(new Event("change"));
  }
}

const byCodePoint = (a, b) => b.folder - a.folder || (a.name < b.name ? -1 : 1);

function insertionPoint(entries, entry, compare) {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(entries[middle], entry) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
