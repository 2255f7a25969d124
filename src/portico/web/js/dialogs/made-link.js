/** The address of a share link that was just made. */

import { shareUrl } from "../api/shares.js";
import { fill, make } from "../ui/dom.js";
import { copyText } from "../ui/clipboard.js";
import { icon } from "../ui/icons.js";
import { announce } from "../ui/notices.js";
import { t } from "../i18n/i18n.js";

/** @import { Child } from "../types.js" */
/** @import { ShareLink } from "../api/shares.js" */

const COPIED_TIMEOUT = 2500;

/** The address of a new link, which is shown only now. @param {ShareLink} link @returns {Child[]} */
export function madeLink(link) {
  const address = make("input", { readonly: true, "aria-label": t("address"), ".value": shareUrl(link), dir: "ltr" });
  const copy = make("button", { type: "button", class: "primary", onclick: async () => {
    await copyText(address.value);
    announce(t("copied"));
    fill(copy, icon("check"), t("copied"));
    setTimeout(() => fill(copy, icon("copy"), t("copyLink")), COPIED_TIMEOUT);
  } }, icon("copy"), t("copyLink"));
  return [make("p", { role: "status" }, t("shareMade")), make("div", { class: "made-link" }, address, copy), make("p", { class: "hint" }, t("shareOnlyNow"))];
}
