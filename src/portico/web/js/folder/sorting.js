/** The order of entries. Folders always come first. */

import { collator } from "../i18n/formats.js";

/** @import { Entry, SortKey, SortOrder } from "../types.js" */
/** @typedef {(a: Entry, b: Entry) => number} Comparison */

/** @param {SortOrder} order @returns {Comparison} */
export function comparison({ key, descending }) {
  const names = collator();
  const sign = descending ? -1 : 1;
  /** @type {Comparison} */
  const byName = (a, b) => names.compare(a.name, b.name) || (a.name < b.name ? -1 : 1);
  /** @type {Record<SortKey, Comparison>} */
  const comparisons = {
    name: byName,
    size: (a, b) => (a.size ?? 0) - (b.size ?? 0),
    modified: (a, b) => (a.modified ?? "").localeCompare(b.modified ?? ""),
  };
  const byKey = comparisons[key];
  return (a, b) => foldersFirst(a, b) || sign * byKey(a, b) || byName(a, b);
}

/** @type {Comparison} */
const foldersFirst = (a, b) => Number(b.folder) - Number(a.folder);

/** The order in which the gateway lists entries. @type {Comparison} */
export const byCodePoint = (a, b) => foldersFirst(a, b) || (a.name < b.name ? -1 : 1);

/** The index at which an entry belongs in a sorted list. @param {Entry[]} entries @param {Entry} entry @param {Comparison} compare */
export function insertionPoint(entries, entry, compare) {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(entries[middle], entry) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
