/** The storage that a folder uses: a search for all files below it, which adds up their sizes. */

import { Search } from "./search.js";

/** @import { FoundEntry } from "../types.js" */

export class FolderUsage extends Search {
  /** @param {string} folder */
  constructor(folder) {
    super(folder, { type: "file" }, { enough: Infinity, page: 1000 });
    this.files = 0;
    this.bytes = 0;
  }

  /** @override @param {FoundEntry[]} entries */
  accept(entries) {
    this.files += entries.length;
    for (const { size = 0 } of entries) this.bytes += size;
  }
}
