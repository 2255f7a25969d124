/** The list of one's share links, and what was done with each. */

import { endLink, listAccesses, listLinks, renewAddress } from "../api/shares.js";
import { button, confirm, openDialog } from "./dialogs.js";
import { madeLink } from "./made-link.js";
import { bdi, fill, make } from "../ui/dom.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { icon } from "../ui/icons.js";
import { errorContent } from "../api/errors.js";
import { t } from "../i18n/i18n.js";

/** @import { Child } from "../types.js" */
/** @import { ShareLink } from "../api/shares.js" */

export async function showLinks() {
  const list = make("ul", { class: "links" });
  const { closed } = openDialog(t("links"), { class: "wide", body: [list] });
  const load = async () => {
    try {
      const links = await listLinks();
      fill(list, ...(links.length ? links.map((link) => row(link, load)) : [make("li", { class: "hint" }, t("noLinks"))]));
    } catch (error) {
      fill(list, make("li", { class: "error", role: "alert" }, ...errorContent(error)));
    }
  };
  await load();
  await closed;
}

/** @param {ShareLink} link @param {() => Promise<void>} reload */
function row(link, reload) {
  const isOpen = link.state === "open";
  const below = make("div", {});
  const name = bdi(link.title || link.path, { class: "strong" });
  /** @param {() => Promise<Child[]>} work */
  const show = (work) => work().then((content) => fill(below, ...content), (error) => fill(below, make("p", { class: "error", role: "alert" }, ...errorContent(error))));
  const end = async () => {
    if (!(await confirm(t("endLinkTitle"), { body: [make("p", {}, t("endLinkHint"))], yes: t("endLink"), danger: true }))) return;
    await endLink(link.id);
    await reload();
  };
  const renew = async () => {
    if (!(await confirm(t("newAddressTitle"), { body: [make("p", {}, t("newAddressHint"))], yes: t("newAddress"), danger: true }))) return;
    await show(async () => madeLink(await renewAddress(link.id)));
  };
  return make("li", {},
    make("div", { class: "link-row" }, icon(link.isFolder ? "folderSolid" : "file"),
      make("div", { class: "link-text" }, name, make("span", { class: "hint" }, facts(link))),
      make("span", { class: `state ${link.state}` }, t(`link_${link.state.replace("-", "_")}`))),
    make("div", { class: "link-actions" },
      button(t("linkLog"), { class: "small", onclick: () => show(async () => log(await listAccesses(link.id))) }),
      isOpen ? button(t("newAddress"), { class: "small", onclick: renew }) : null,
      isOpen ? button(t("endLink"), { class: "small danger", onclick: end }) : null),
    below);
}

/** @param {ShareLink} link */
function facts({ path, title, kind, downloads, maxDownloads, uploads, maxUploads, expiresAt, hasPassword }) {
  /** @param {number} count @param {number | null} most */
  const of = (count, most) => (most === null ? String(count) : `${count} / ${most}`);
  return [
    title ? path : "",
    t(`share_${kind}`),
    kind === "request" ? "" : `${t("linkDownloads")}: ${of(downloads, maxDownloads)}`,
    kind === "download" ? "" : `${t("linkUploads")}: ${of(uploads, maxUploads)}`,
    expiresAt ? t("linkUntil", { date: dateTime(expiresAt) }) : "",
    hasPassword ? t("password") : "",
  ].filter(Boolean).join(" · ");
}

/** @param {import("../api/shares.js").Access[]} accesses @returns {Child[]} */
function log(accesses) {
  if (!accesses.length) return [make("p", { class: "hint" }, t("noAccesses"))];
  return [make("ol", { class: "accesses" }, ...accesses.map((access) => make("li", {},
    make("time", { datetime: access.at }, dateTime(access.at)), " · ", t(`access_${access.action.replace("-", "_")}`), " ",
    bdi(access.path), access.bytes === null ? "" : ` (${bytes(access.bytes)})`, " · ", bdi(access.name || "–"), " · ", access.client)))];
}
