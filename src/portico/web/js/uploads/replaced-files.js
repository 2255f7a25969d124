/** Offers to bring back what uploads have replaced. */

import { restore } from "../api/changes.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";
import { notify, notifyError } from "../ui/notices.js";

/** @import { UploadQueue } from "./upload-queue.js" */

/** @param {UploadQueue} queue @param {() => void} onRestored called when files are back */
export function offerUndo(queue, onRestored) {
  queue.addEventListener("idle", () => {
    const replaced = queue.items.map((item) => ({ folder: item.folder, ids: item.replaced.splice(0) }));
    const ids = replaced.flatMap((item) => (session.mayIn(item.folder, "upload", "overwrite") ? item.ids : []));
    if (!ids.length) return;
    notify(t("replacedFiles", { count: ids.length }), { label: t("undoReplaced"), run: () => bringBack(ids, onRestored) });
  });
}

/** @param {string[]} ids @param {() => void} onRestored */
async function bringBack(ids, onRestored) {
  let count = 0;
  try {
    for (const id of ids) {
      await restore(id, "replace");
      count += 1;
    }
  } catch (error) {
    notifyError(error);
  }
  if (count) notify(t("restored", { count }));
  onRestored();
}
