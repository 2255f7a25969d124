/** Finds name conflicts before a file is sent, where that is cheap. */

import { stat } from "../api/client.js";
import { Listing } from "../folder/listing.js";
import { join, nameOf, parent } from "../paths.js";
import { session } from "../api/session.js";

const MAX_LISTED = 5000;
/** The gateway reports a conflict after it has read this much at most. For larger files a request beforehand pays off. */
const STAT_THRESHOLD = 16 * 2 ** 20;

export class NameConflicts {
  /** @param {Listing} listing of the folder that contains all targets */
  constructor(listing) {
    /** @type {Map<string, Promise<Set<string> | null>>} names by folder; null where they are unknown */
    this.names = new Map([[listing.path, Promise.resolve(listing.complete ? new Set(listing.byName.keys()) : null)]]);
  }

  /** Whether the file's name exists. False may turn out to be wrong: the gateway decides. @param {string} folder @param {File} file */
  async has(folder, file) {
    if (!session.mayIn(folder, "list")) return false;
    const names = await this.#namesIn(folder);
    if (names) return names.has(file.name);
    if (file.size < STAT_THRESHOLD) return false;
    return stat(join(folder, file.name)).then(() => true, () => false);
  }

  /** @param {string} folder */
  #namesIn(folder) {
    const names = this.names.get(folder) ?? this.#load(folder);
    this.names.set(folder, names);
    return names;
  }

  /** @param {string} folder @returns {Promise<Set<string> | null>} */
  async #load(folder) {
    const siblings = folder === "/" ? null : await this.#namesIn(parent(folder));
    if (siblings && !siblings.has(nameOf(folder))) return new Set();
    const listing = new Listing(folder);
    try {
      await listing.open(MAX_LISTED);
    } catch {
      return null;
    }
    return listing.complete ? new Set(listing.byName.keys()) : null;
  }
}
