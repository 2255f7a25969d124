/** The entries of one folder, as far as they are loaded. */

import { listPage } from "./api.js";
import { collator } from "./formats.js";

/** @typedef {{name: string, folder: boolean, type: string, size?: number, modified?: string}} Entry */

const FIRST_PAGE = 250;
const PAGE = 1000;
/** Services give less where they cannot give so much. */
const LARGEST_PAGE = 5000;
const REDRAW = 200;
const ATTEMPTS = 3;
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
    /** Whether the entries are in the order that was asked for, and not in that of their pages. */
    this.sorted = false;
    /** Counts every change, so that an older look at the folder is not taken for a newer one. */
    this.revision = 0;
    /** Whether the first page is there. */
    this.opened = false;
    this.filter = "";
    /** @type {{key: "name" | "size" | "modified", descending: boolean}} */
    this.order = { key: "name", descending: false };
    this.aborter = new AbortController();
    this.pending = null;
    this.whole = null;
  }

  get count() {
    return this.entries.length;
  }

  /** The first page, and as many more as make `atLeast` entries. */
  async open(atLeast = 0) {
    const size = [FIRST_PAGE, PAGE].find((enough) => atLeast <= enough) ?? LARGEST_PAGE;
    do await this.#load(size);
    while (!this.complete && this.count < atLeast);
    if (this.complete) this.#sort();
    this.opened = true;
    this.#changed();
  }

  /** The next page, if there is one; asking again while it is on its way changes nothing. */
  async more() {
    if (this.complete || this.count >= MOST_LOADED) return;
    await this.#next(PAGE);
    this.#changed();
  }

  /** Everything, up to `MOST_LOADED`, in people's order; `stop` ends it early. Asking again meanwhile changes nothing. */
  all() {
    this.whole ??= this.#all().finally(() => {
      this.whole = null;
      this.#changed();
    });
    return this.whole;
  }

  get isLoadingAll() {
    return this.whole !== null;
  }

  stop() {
    this.stopped = true;
  }

  /** Whether nothing more can be loaded. */
  get isFull() {
    return this.complete || this.count >= MOST_LOADED;
  }

  /**
   * Look again and take over what has changed; entries that are still there stay the same objects.
   * @returns {Promise<boolean>} false if uploads or deletions kept changing the folder meanwhile
   */
  async refresh() {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      await this.pending;
      const { revision } = this;
      const fresh = new Listing(this.path);
      this.aborter.signal.addEventListener("abort", () => fresh.close(), { once: true });
      await fresh.open(this.count);
      if (this.complete) await fresh.all();
      if (this.closed) return false;
      if (this.pending || revision !== this.revision) continue;
      this.#adopt(fresh);
      return true;
    }
    return false;
  }

  close() {
    this.aborter.abort();
  }

  get closed() {
    return this.aborter.signal.aborted;
  }

  /** Of use once all is loaded: the order of a part would mislead. @param {typeof this.order} order */
  sortBy(order) {
    this.order = order;
    this.#sort();
    this.#changed();
  }

  filterBy(text) {
    this.filter = text.trim().toLocaleLowerCase();
    this.#changed();
  }

  /** An entry came or changed. One that lies beyond what is loaded comes with its page. @param {Entry} entry */
  put(entry) {
    this.revision += 1;
    const old = this.byName.get(entry.name);
    if (old) Object.assign(old, entry);
    else {
      const compare = this.sorted ? this.#comparison() : byCodePoint;
      const place = insertionPoint(this.entries, entry, compare);
      if (place === this.count && !this.complete) return;
      this.entries.splice(place, 0, entry);
      this.byName.set(entry.name, entry);
    }
    this.#changed();
  }

  /** @param {Iterable<string>} names */
  drop(names) {
    this.revision += 1;
    const gone = new Set(names);
    for (const name of gone) this.byName.delete(name);
    this.entries = this.entries.filter((entry) => !gone.has(entry.name));
    this.#changed();
  }

  async #all() {
    this.stopped = false;
    this.#changed();
    let drawn = performance.now();
    while (!this.isFull && !this.stopped) {
      await this.#next(LARGEST_PAGE);
      if (performance.now() - drawn < REDRAW) continue;
      this.#changed();
      drawn = performance.now();
    }
    if (this.complete) this.#sort();
  }

  async #next(size) {
    this.pending ??= this.#load(size).finally(() => {
      this.pending = null;
    });
    await this.pending;
  }

  /** @param {Listing} fresh */
  #adopt(fresh) {
    this.entries = fresh.entries.map((entry) => Object.assign(this.byName.get(entry.name) ?? {}, entry));
    this.byName = new Map(this.entries.map((entry) => [entry.name, entry]));
    this.cursor = fresh.cursor;
    this.complete = fresh.complete;
    this.sorted = false;
    if (this.isFull) this.#sort();
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
    this.revision += 1;
    this.cursor = page.nextCursor;
    this.complete = page.nextCursor === null;
  }

  #sort() {
    this.entries.sort(this.#comparison());
    this.sorted = true;
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
