/** Drag and drop: the whole page accepts files. */

import { bdi, fill, make, sentence } from "../ui/dom.js";
import { filesFromDrop } from "./picked-files.js";
import { icon } from "../ui/icons.js";
import { messageOf } from "../api/errors.js";
import { notifyError } from "../ui/notices.js";
import { t } from "../i18n/i18n.js";

/** @import { PickedFile } from "../types.js" */

/** The event's files, or null if something else is dragged. @param {DragEvent} event */
const transferOf = (event) => (event.dataTransfer?.types.includes("Files") ? event.dataTransfer : null);

/** @param {{mayDrop: () => boolean, target: () => {path: string, label: string}, onDrop: (files: PickedFile[]) => void}} options */
export function watchDropZone({ mayDrop, target, onDrop }) {
  const text = make("p");
  const overlay = make("div", { class: "drop-zone", hidden: true, "aria-hidden": "true" }, icon("upload"), text);
  document.body.append(overlay);
  let depth = 0;
  const end = () => {
    depth = 0;
    overlay.hidden = true;
  };

  addEventListener("dragenter", (event) => {
    if (!transferOf(event)) return;
    event.preventDefault();
    depth += 1;
    if (!mayDrop()) return;
    fill(text, ...sentence(t("dropHere"), { name: bdi(target().label, { class: "strong" }) }));
    overlay.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (transferOf(event) && (depth -= 1) <= 0) end();
  });
  addEventListener("dragover", (event) => {
    const transfer = transferOf(event);
    if (!transfer) return;
    // Without this the browser would leave the page and open the file.
    event.preventDefault();
    transfer.dropEffect = mayDrop() ? "copy" : "none";
  });
  addEventListener("drop", async (event) => {
    const transfer = transferOf(event);
    if (!transfer) return;
    event.preventDefault();
    end();
    if (!mayDrop()) return;
    try {
      const files = await filesFromDrop(transfer, target().path);
      if (files.length) onDrop(files);
    } catch (error) {
      notifyError(new Error(t("cannotReadDrop", { reason: messageOf(error) })));
    }
  });
}
