/** Drag and drop, and paste: the whole page accepts files, and a folder that is pointed at accepts them for itself. */

import { bdi, fill, isTyping, make, sentence } from "../ui/dom.js";
import { filesFromDrop } from "./picked-files.js";
import { icon, setIcon } from "../ui/icons.js";
import { messageOf } from "../api/errors.js";
import { notifyError } from "../ui/notices.js";
import { t } from "../i18n/i18n.js";

/** @import { PickedFile } from "../types.js" */
/** @typedef {{path: string, label: string, element?: HTMLElement, refusal?: string}} DropTarget `refusal`: why it takes no files */

/** Whether files can be dragged here: not on a phone, which has no windows beside this one. */
export const mayDrag = () => !matchMedia("(hover: none), (max-width: 46rem)").matches;

/** The event's files, or null if something else is dragged. @param {DragEvent} event */
const transferOf = (event) => (event.dataTransfer?.types.includes("Files") ? event.dataTransfer : null);

/** @param {{mayDrop: () => boolean, target: (event: Event) => DropTarget, onTarget?: (element: HTMLElement | null) => void, onDrop: (files: PickedFile[], path: string) => void}} options */
export function watchDropZone({ mayDrop, target, onTarget = () => undefined, onDrop }) {
  const text = make("p");
  const symbol = icon("upload");
  const overlay = make("div", { class: "drop-zone", hidden: true, "aria-hidden": "true" }, make("div", {}, symbol, text));
  document.body.append(overlay);
  let depth = 0;
  const end = () => {
    depth = 0;
    overlay.hidden = true;
    onTarget(null);
  };
  /** @param {Event} event */
  const show = (event) => {
    const { label, element, refusal } = target(event);
    fill(text, ...(refusal ? [refusal] : sentence(t("dropHere"), { name: bdi(label, { class: "strong" }) })));
    setIcon(symbol, refusal ? "lock" : "upload");
    overlay.classList.toggle("aimed", Boolean(element) || Boolean(refusal));
    overlay.hidden = false;
    onTarget(refusal ? null : element ?? null);
  };
  /** @param {Event} event @param {DataTransfer} transfer */
  const take = async (event, transfer) => {
    const { path, refusal } = target(event);
    if (refusal) {
      notifyError(new Error(refusal));
      return;
    }
    try {
      const files = await filesFromDrop(transfer, path);
      if (files.length) onDrop(files, path);
    } catch (error) {
      notifyError(new Error(t("cannotReadDrop", { reason: messageOf(error) })));
    }
  };

  addEventListener("dragenter", (event) => {
    if (!transferOf(event)) return;
    event.preventDefault();
    depth += 1;
    if (mayDrop()) show(event);
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
    if (mayDrop()) show(event);
  });
  addEventListener("drop", (event) => {
    const transfer = transferOf(event);
    if (!transfer) return;
    event.preventDefault();
    end();
    if (mayDrop()) take(event, transfer);
  });
  addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length || isTyping(event.target) || !mayDrop()) return;
    event.preventDefault();
    take(new Event("paste"), event.clipboardData);
  });
}
