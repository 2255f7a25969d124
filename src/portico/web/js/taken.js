/** Which names are taken where a batch of files is going: known before a byte is sent in vain, where that is cheap. */

import { stat } from "./api.js";
import { Listing } from "./listing.js";
import { join, nameOf, parent } from "./paths.js";
import { session } from "./session.js";

const MOST_LISTED = 5000;
/** The gateway answers a conflict after it has taken in this much at most; larger files are better asked about. */
const WORTH_ASKING = 16 * 2 ** 20;

export class Taken {
  /** @param {Listing} listing of the folder that holds all targets */
  constructor(listing) {
    this.top = listing.path;
    /** @type {Map<string, Promise<Set<string> | null>>} by folder; null where it is not known */
    this.known = new Map([[listing.path, Promise.resolve(listing.complete ? new Set(listing.byName.keys()) : null)]]);
  }

  /** Whether the file would meet another one. "No" may still turn out wrong: the gateway has the last word. */
  async holds(folder, file) {
    if (!session.may("list")) return false;
    const names = await this.#names(folder);
    if (names) return names.has(file.name);
    if (file.size < WORTH_ASKING) return false;
    return stat(join(folder, file.name)).then(() => true, () => false);
  }

  #names(folder) {
    if (!this.known.has(folder)) this.known.set(folder, this.#find(folder));
    return this.known.get(folder);
  }

  async #find(folder) {
    const above = folder === "/" ? null : await this.#names(parent(folder));
    if (above && !above.has(nameOf(folder))) return new Set();
    const listing = new Listing(folder);
    try {
      await listing.open(MOST_LISTED);
    } catch {
      return null;
    }
    return listing.complete ? new Set(listing.byName.keys()) : null;
  }
}
