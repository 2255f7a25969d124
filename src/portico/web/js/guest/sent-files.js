/** What a sender has sent: thanks, the names, and the receipts to keep. */

import { bytes } from "../i18n/formats.js";
import { t } from "../i18n/i18n.js";
import { session } from "../api/session.js";
import { bdi, fill, make } from "../ui/dom.js";
import { icon } from "../ui/icons.js";

/** @import { UploadItem } from "../types.js" */

/** How many names are listed. */
const MAX_SHOWN = 100;

export class SentFiles {
  /** @param {import("../uploads/upload-queue.js").UploadQueue} queue */
  constructor(queue) {
    this.element = make("div", { class: "sent", role: "status", hidden: true });
    /** @type {UploadItem[]} */
    this.items = [];
    queue.addEventListener("stored", (event) => {
      this.items.push(.../** @type {CustomEvent<UploadItem[]>} */ (event).detail);
      this.#draw();
    });
  }

  #draw() {
    const rest = this.items.length - MAX_SHOWN;
    this.element.hidden = false;
    fill(this.element, make("h2", {}, icon("check"), t("thanks")), make("p", {}, t("uploaded", { count: this.items.length })),
      make("ul", {}, ...this.items.slice(0, MAX_SHOWN).map(({ name, size }) => make("li", {}, bdi(name), make("span", { class: "hint" }, bytes(size)))),
        rest > 0 ? make("li", { class: "hint" }, t("andMore", { count: rest })) : null),
      make("button", { type: "button", class: "wide", onclick: save }, icon("download"), t("saveReceipts")));
  }
}

/** As the gateway's own answers have them, so that `portico receipt verify` reads the file. */
function save() {
  const content = /** @type {any} */ (session).receipts;
  const address = URL.createObjectURL(new Blob([JSON.stringify({ content }, null, 2)], { type: "application/json" }));
  make("a", { href: address, download: "portico-receipts.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
