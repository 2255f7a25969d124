/** The details of a file or folder: a pane at the side, on phones a sheet. */

import { etag, stat } from "../api/client.js";
import { button, openDialog } from "./dialogs.js";
import { bdi, fill, make } from "../ui/dom.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { copyText } from "../ui/clipboard.js";
import { icon } from "../ui/icons.js";
import { announce } from "../ui/notices.js";
import { nameOf, pageUrl } from "../paths.js";
import { errorContent, isAbort } from "../api/errors.js";
import { FolderUsage } from "../search/folder-usage.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";

/** @import { Child, EntryBody } from "../types.js" */

const COPIED_TIMEOUT = 2500;

/** @param {string} path @param {() => void} [onActivity] shows what happened to it */
export async function showDetails(path, onActivity) {
  const aborter = new AbortController();
  const list = make("dl", { class: "facts-list" });
  const problem = make("p", { class: "error", role: "alert" });
  const usage = new FolderUsage(path);
  const { closed } = openDialog([bdi(path === "/" ? t("root") : nameOf(path))], { class: "details", body: [list, problem], actions: onActivity ? [button(t("activity"), { onclick: onActivity })] : [] });
  fill(list, fact(t("path"), copied(path, t("copyPath"))), fact(t("address"), copied(pageUrl(path), t("copyLink"))));
  const { connection } = session.mounts.at(path) ?? {};
  if (connection) list.append(fact(t("keptIn"), bdi(connection)));
  const load = async () => {
    const body = await stat(path, aborter.signal);
    list.append(...(body.type === "REGULAR" ? fileFacts(body) : folderFacts(body, usage)));
    const version = body.type === "REGULAR" && session.mayIn(path, "download") ? await etag(path, aborter.signal) : null;
    if (version) list.append(fact("ETag", copied(version, t("copyText"))));
  };
  load().catch((error) => { if (!isAbort(error)) fill(problem, ...errorContent(error)); });
  await closed;
  aborter.abort();
  usage.stop();
}

/** @param {EntryBody} body */
function fileFacts(body) {
  const size = body.size ?? 0;
  return [
    fact(t("searchType"), body.contentType),
    fact(t("column_size"), size < 1000 ? bytes(size) : `${bytes(size)} (${t("byteCount", { count: size })})`),
    body.lastModified ? fact(t("column_modified"), dateTime(body.lastModified)) : null,
    body.digest ? fact("SHA-256", copied(hexadecimal(body.digest), t("copyText"))) : null,
  ].filter((child) => child !== null);
}

/** @param {EntryBody} body @param {FolderUsage} usage */
function folderFacts(body, usage) {
  return [
    fact(t("searchType"), t("folder")),
    body.lastModified ? fact(t("column_modified"), dateTime(body.lastModified)) : null,
    fact(t("storageUsed"), usageView(usage)),
  ].filter((child) => child !== null);
}

/** Added up on request, because it takes as long as there are files. @param {FolderUsage} usage */
function usageView(usage) {
  const text = make("span", {});
  const spinner = make("span", { class: "spinner", "aria-hidden": "true", hidden: true });
  const start = make("button", { type: "button", class: "small", onclick: () => (usage.running ? usage.stop() : usage.run().then(() => announce(text.textContent))) }, t("calculate"));
  usage.addEventListener("change", () => {
    const { running, complete, error, files: count } = usage;
    fill(text, ...(error ? errorContent(error) : [t(complete ? "usedBy" : "usedSoFar", { count, size: bytes(usage.bytes) })]));
    spinner.hidden = !running;
    start.hidden = complete;
    start.textContent = t(running ? "stopLoading" : "searchOn");
  });
  return make("span", { class: "usage" }, text, spinner, start);
}

/** @param {string} label @param {Child} value */
const fact = (label, value) => make("div", {}, make("dt", {}, label), make("dd", {}, value));

/** A text with a button to copy it. @param {string} text @param {string} label */
function copied(text, label) {
  const copy = make("button", { type: "button", class: "quiet round", "aria-label": label, title: label, onclick: async () => {
    await copyText(text);
    announce(t("copied"));
    fill(copy, icon("check"));
    setTimeout(() => fill(copy, icon("copy")), COPIED_TIMEOUT);
  } }, icon("copy"));
  return make("span", { class: "copied" }, bdi(text), copy);
}

/** As `sha256sum` prints it. @param {string} digest `sha-256=:Base64:` */
const hexadecimal = (digest) => [...atob(digest.split(":")[1] ?? "")].map((byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
