/** A search below a folder: request after request, each of which looks at a bounded number of entries. */

import { searchPage } from "../api/client.js";
import { isAbort } from "../api/errors.js";
import { toEntry } from "../folder/listing.js";

/** @import { FoundEntry } from "../types.js" */

/** Pause after this many results, until the user wants more. */
const ENOUGH = 1000;
const PAGE = 200;

/** Emits `change` after each response, and when it begins or ends. */
export class Search extends EventTarget {
  /** @param {string} folder @param {Record<string, string>} criteria the parameters of `action=SEARCH` */
  constructor(folder, criteria, { enough = ENOUGH, page = PAGE } = {}) {
    super();
    this.folder = folder;
    this.criteria = criteria;
    this.enough = enough;
    this.page = page;
    /** @type {FoundEntry[]} */
    this.found = [];
    /** How many entries the gateway has looked at. */
    this.searched = 0;
    this.complete = false;
    this.running = false;
    /** @type {unknown} */
    this.error = null;
    /** @type {string | null} */
    this.cursor = null;
    this.aborter = new AbortController();
  }

  /** Search until everything is searched, there is enough, or `stop` is called. Call it again to go on. */
  async run() {
    if (this.running || this.complete) return;
    this.aborter = new AbortController();
    this.error = null;
    this.running = true;
    const limit = this.found.length + this.enough;
    this.#changed();
    try {
      while (!this.complete && this.found.length < limit) await this.#load(this.aborter.signal);
    } catch (error) {
      if (!isAbort(error)) this.error = error;
    } finally {
      this.running = false;
      this.#changed();
    }
  }

  /** What is found so far stays. */
  stop() {
    this.aborter.abort();
  }

  /** @param {AbortSignal} signal */
  async #load(signal) {
    const page = await searchPage(this.folder, { criteria: this.criteria, cursor: this.cursor, size: this.page, signal });
    this.accept(page.content.map((body) => ({ path: body.absolutePath, ...toEntry(body) })));
    this.searched = page.searched;
    this.cursor = page.nextCursor;
    this.complete = page.nextCursor === null;
    this.#changed();
  }

  /** @param {FoundEntry[]} entries */
  accept(entries) {
    this.found.push(...entries);
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
