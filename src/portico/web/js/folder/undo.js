/** What undoes a change of entries: it brings back what the gateway has put into the trash. */

import * as changes from "../api/changes.js";
import { forEach } from "./each-entry.js";

/** @import { Entry } from "../types.js" */
/** @import { Listing } from "./listing.js" */
/** @typedef {{entry: Entry, from: string, to: string, ids: string[]}} Replaced an entry that has replaced something, which is in the trash */

/** @typedef {{id: string, entry: Entry, inPart?: boolean}} Trashed `inPart`: the rest of the folder is where it was */

/** @param {Listing} listing @param {Trashed[]} trashed */
export async function undoRemove(listing, trashed) {
  const byEntry = new Map(trashed.map((item) => [item.entry, item]));
  await forEach([...byEntry.keys()], {
    act: async (entry) => {
      const { id, inPart } = /** @type {Trashed} */ (byEntry.get(entry));
      await changes.restore(id, inPart ? "replace" : "fail");
      return entry.name;
    },
    after: (done) => listing.put(...done.map(({ entry }) => entry)),
    success: "restored",
    failure: "restoreFailed",
  });
}

/** Bring back what was replaced. A file that was moved there returns to its folder. @param {Listing} listing @param {Replaced[]} replaced @param {{moved: boolean}} options */
export async function undoReplaced(listing, replaced, { moved }) {
  const byEntry = new Map(replaced.map((item) => [item.entry, item]));
  await forEach([...byEntry.keys()], {
    act: async (entry) => {
      const { from, to, ids } = /** @type {Replaced} */ (byEntry.get(entry));
      if (moved && !entry.folder) await changes.move(to, from);
      for (const id of ids) await changes.restore(id, "replace");
      return entry.name;
    },
    after: (done) => moved && listing.put(...done.map(({ entry }) => entry).filter((entry) => !entry.folder)),
    success: "restored",
    failure: "restoreFailed",
  });
}
