/** Files that are dragged over the page. */

import { bdi, fill, make, sentence } from "./dom.js";
import { fromDrop } from "./gathering.js";
import { icon } from "./icons.js";
import { complain } from "./notices.js";
import { t } from "./texts.js";

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/**
 * @param {{mayDrop: () => boolean, target: () => {path: string, label: string}, onUploads: (uploads: object[]) => void}} options
 */
export function watchDrops({ mayDrop, target, onUploads }) {
  const text = make("p");
  const overlay = make("div", { class: "drop", hidden: true, "aria-hidden": "true" }, icon("upload"), text);
  document.body.append(overlay);
  let depth = 0;
  const end = () => {
    depth = 0;
    overlay.hidden = true;
  };

  addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth += 1;
    if (!mayDrop()) return;
    fill(text, ...sentence(t("dropHere"), { name: bdi(target().label, { class: "strong" }) }));
    overlay.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (hasFiles(event) && (depth -= 1) <= 0) end();
  });
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    // Without this the browser would leave the page and open the file.
    event.preventDefault();
    event.dataTransfer.dropEffect = mayDrop() ? "copy" : "none";
  });
  addEventListener("drop", async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    end();
    if (!mayDrop()) return;
    try {
      const uploads = await fromDrop(event.dataTransfer, target().path);
      if (uploads.length) onUploads(uploads);
    } catch (error) {
      complain(new Error(t("cannotReadDrop", { reason: error.message })));
    }
  });
}
