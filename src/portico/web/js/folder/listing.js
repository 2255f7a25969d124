/** The loaded entries of one folder. */

import { listPage } from "../api/client.js";
import { byCodePoint, comparison, insertionPoint } from "./sorting.js";

/** @import { Entry, EntryBody, SortOrder } from "../types.js" */

const FIRST_PAGE = 250;
const PAGE = 1000;
/** Storage services that cannot deliver this much return less. */
const MAX_PAGE = 5000;
/** Load the next page when the last visible row is this close to the end. */
const PREFETCH = 100;
const REDRAW_INTERVAL = 200;
const REFRESH_ATTEMPTS = 3;
/** More rows would make the list higher than browsers can draw. */
const MAX_LOADED = 500_000;

/** How many entries are loaded to find one. */
const MAX_FIND = 20_000;

/** @param {EntryBody} body @returns {Entry} */
export const toEntry = (body) => ({
  name: body.name,
  folder: body.type === "DIRECTORY",
  type: body.contentType,
  size: body.size,
  modified: body.lastModified,
});

/** Emits `change` whenever `shown` may have changed. */
export class Listing extends EventTarget {
  /** @param {string} path */
  constructor(path) {
    super();
    this.path = path;
    /** @type {Entry[]} sorted, or in the order of the pages */
    this.entries = [];
    /** @type {Entry[]} the entries that match the filter */
    this.shown = this.entries;
    /** @type {Map<string, Entry>} */
    this.byName = new Map();
    /** @type {string | null} */
    this.cursor = null;
    this.complete = false;
    /** Whether the entries are in the requested order rather than in that of the pages. */
    this.sorted = false;
    /** Incremented on every change, so that `refresh` can tell whether its result is outdated. */
    this.revision = 0;
    /** Whether the first page is loaded. */
    this.opened = false;
    this.filter = "";
    /** @type {SortOrder} */
    this.order = { key: "name", descending: false };
    this.aborter = new AbortController();
    /** @type {Promise<void> | null} */
    this.pending = null;
    /** @type {Promise<void> | null} */
    this.loadingAll = null;
    this.stopped = false;
  }

  get count() {
    return this.entries.length;
  }

  /** Load the first page, and further ones until there are `atLeast` entries. */
  async open(atLeast = 0) {
    const size = [FIRST_PAGE, PAGE].find((enough) => atLeast <= enough) ?? MAX_PAGE;
    do await this.#load(size);
    while (!this.complete && this.count < atLeast);
    if (this.complete) this.#sort();
    this.opened = true;
    this.#changed();
  }

  /** Load the next page, if there is one. Concurrent calls share one request. */
  async more() {
    if (this.complete || this.count >= MAX_LOADED) return;
    await this.#next(PAGE);
    this.#changed();
  }

  /** Load until this entry is among them, in folders of a usual size. @param {string} name */
  async find(name) {
    while (!this.complete && !this.byName.has(name) && this.count < MAX_FIND) await this.#next(MAX_PAGE);
    if (this.complete) this.#sort();
    this.#changed();
  }

  /** Load the next page if the reader gets close to the end. @param {number} lastVisible */
  async prefetch(lastVisible) {
    if (!this.opened || this.filter || this.isLoadingAll || lastVisible < this.count - PREFETCH) return;
    await this.more();
  }

  /** Load everything, up to `MAX_LOADED`, and sort it. `stop` ends it early. Concurrent calls share one run. */
  all() {
    this.loadingAll ??= this.#all().finally(() => {
      this.loadingAll = null;
      this.#changed();
    });
    return this.loadingAll;
  }

  get isLoadingAll() {
    return this.loadingAll !== null;
  }

  stop() {
    this.stopped = true;
  }

  /** Whether there is nothing more to load. */
  get isFull() {
    return this.complete || this.count >= MAX_LOADED;
  }

  /**
   * Load the folder again and apply the differences. Entries that still exist stay the same objects.
   * @returns {Promise<boolean>} false if uploads or deletions kept changing the folder
   */
  async refresh() {
    for (let attempt = 0; attempt < REFRESH_ATTEMPTS; attempt += 1) {
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

  /** Call it once everything is loaded: a sorted part would be misleading. @param {SortOrder} order */
  sortBy(order) {
    this.order = order;
    this.#sort();
    this.#changed();
  }

  /** @param {string} text */
  filterBy(text) {
    this.filter = text.trim().toLocaleLowerCase();
    this.#changed();
  }

  /** Add or update entries. One beyond the loaded pages is left out: it comes with its page. @param {...Entry} entries */
  put(...entries) {
    if (!entries.length) return;
    this.revision += 1;
    for (const entry of entries) this.#put(entry);
    this.#changed();
  }

  /** @param {Entry} entry */
  #put(entry) {
    const old = this.byName.get(entry.name);
    if (old) {
      Object.assign(old, entry);
      return;
    }
    const compare = this.sorted ? comparison(this.order) : byCodePoint;
    const index = insertionPoint(this.entries, entry, compare);
    if (index === this.count && !this.complete) return;
    this.entries.splice(index, 0, entry);
    this.byName.set(entry.name, entry);
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
      await this.#next(MAX_PAGE);
      if (performance.now() - drawn < REDRAW_INTERVAL) continue;
      this.#changed();
      drawn = performance.now();
    }
    if (this.complete) this.#sort();
  }

  /** @param {number} size */
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

  /** @param {number} size */
  async #load(size) {
    const { signal } = this.aborter;
    const page = await listPage(this.path, { cursor: this.cursor, size, signal });
    for (const body of page.content) {
      if (body.isCurrentFolder || this.byName.has(body.name)) continue;
      const entry = toEntry(body);
      this.entries.push(entry);
      this.byName.set(entry.name, entry);
    }
    this.revision += 1;
    this.cursor = page.nextCursor;
    this.complete = page.nextCursor === null;
  }

  #sort() {
    this.entries.sort(comparison(this.order));
    this.sorted = true;
  }

  #changed() {
    this.shown = this.filter
      ? this.entries.filter((entry) => entry.name.toLocaleLowerCase().includes(this.filter))
      : this.entries;
    this.dispatchEvent(new Event("change"));
  }
}
