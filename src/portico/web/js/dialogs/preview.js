/** A preview of images and text. Content is shown as pixels or as plain text, never as a document that could run scripts. */

import { read } from "../api/client.js";
import { openDialog } from "./dialogs.js";
import { arrowStep, bdi, closest, fill, make } from "../ui/dom.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { icon, iconFor } from "../ui/icons.js";
import { extension, join } from "../paths.js";
import { errorContent, isAbort } from "../api/errors.js";
import { t } from "../i18n/i18n.js";

/** @import { Child, Entry } from "../types.js" */

/** Image types that cannot contain scripts. SVG can, so it is shown as text. */
const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
const TEXT_TYPES = /^text\/|json|xml|yaml|javascript|x-sh|sql|toml|csv/;
const TEXT_NAMES = /\.(log|ini|conf|cfg|properties|env|toml|md|rst|py|rb|go|rs|java|kt|c|h|cpp|ts|tsx|jsx|sh|sql|lock|gitignore)$/i;
const MAX_IMAGE = 40 * 10 ** 6;
const MAX_TEXT = 256 * 1024;

/** @param {Entry} entry */
function kindOf(entry) {
  const size = entry.size ?? 0;
  if (IMAGE_TYPES.has(entry.type)) return size > MAX_IMAGE ? "large" : "image";
  return TEXT_TYPES.test(entry.type) || TEXT_NAMES.test(entry.name) || (!extension(entry.name) && size < MAX_TEXT) ? "text" : "other";
}

/**
 * @param {string} folder
 * @param {Entry[]} entries the files to browse
 * @param {Entry} entry the one to start with
 * @param {{onDownload: (entry: Entry) => void, onShow: (entry: Entry) => void}} handlers
 * @returns {{close: () => void, closed: Promise<unknown>}}
 */
export function preview(folder, entries, entry, { onDownload, onShow }) {
  let index = entries.indexOf(entry);
  let aborter = new AbortController();
  let objectUrl = "";
  const title = bdi("");
  const facts = make("p", { class: "hint" });
  const content = make("div", { class: "preview-content", tabindex: "0", role: "group", "aria-label": t("content") });
  /** @param {number} step @param {import("../types.js").IconName} iconName @param {string} label */
  const stepButton = (step, iconName, label) => make("button", { type: "button", class: "quiet round", "aria-label": label, title: label, onclick: () => show(index + step) }, icon(iconName));
  const previous = stepButton(-1, "previous", t("previousFile"));
  const next = stepButton(1, "next", t("nextFile"));
  const zoom = make("button", { type: "button", class: "quiet round", "aria-label": t("actualSize"), title: `${t("actualSize")} (Z)`, "aria-pressed": "false", hidden: true, onclick: () => setZoom(!isZoomed()) }, icon("zoom"));
  const isZoomed = () => content.classList.contains("zoomed");
  /** @param {boolean} on */
  const setZoom = (on) => {
    content.classList.toggle("zoomed", on);
    zoom.setAttribute("aria-pressed", String(on));
  };
  content.addEventListener("click", (event) => { if (closest(event, "img")) setZoom(!isZoomed()); });
  const save = make("button", { type: "button", class: "primary", onclick: () => onDownload(entries[index]) }, icon("download"), t("download"));
  const { dialog, closed } = openDialog([title], { class: "preview", body: [content], actions: [facts, zoom, previous, next, save] });

  const clear = () => {
    aborter.abort();
    aborter = new AbortController();
    if (objectUrl) URL.revokeObjectURL(objectUrl);
    objectUrl = "";
  };
  /** @param {number} at */
  const show = async (at) => {
    if (at < 0 || at >= entries.length) return;
    clear();
    index = at;
    const file = entries[at];
    const { signal } = aborter;
    title.textContent = file.name;
    facts.textContent = [bytes(file.size ?? 0), dateTime(file.modified)].filter(Boolean).join(" · ");
    previous.disabled = at === 0;
    next.disabled = at === entries.length - 1;
    onShow(file);
    setZoom(false);
    zoom.hidden = kindOf(file) !== "image";
    fill(content, make("p", { class: "hint" }, t("loading")));
    try {
      const view = await viewOf(folder, file, signal, (blob) => (objectUrl = URL.createObjectURL(blob)));
      if (!signal.aborted) fill(content, ...view);
    } catch (error) {
      if (!isAbort(error)) fill(content, make("p", { class: "error", role: "alert" }, ...errorContent(error)));
    }
  };
  dialog.addEventListener("keydown", (event) => {
    const step = arrowStep(event);
    if (event.key.toLowerCase() === "z" && !event.ctrlKey && !event.metaKey && !event.altKey && !zoom.hidden) zoom.click();
    if (step && content.scrollWidth <= content.clientWidth) show(index + step);
  });
  show(index);
  content.focus();
  return { close: () => dialog.close(), closed: closed.then(clear) };
}

/** @param {string} folder @param {Entry} file @param {AbortSignal} signal @param {(blob: Blob) => string} urlFor @returns {Promise<Child[]>} */
async function viewOf(folder, file, signal, urlFor) {
  const path = join(folder, file.name);
  const kind = kindOf(file);
  if (kind === "image") {
    const data = await (await read(path, { signal })).arrayBuffer();
    const src = urlFor(new Blob([data], { type: file.type }));
    const image = make("img", { src, alt: t("pictureOf", { name: file.name }) });
    await image.decode().catch(() => {
      throw new Error(t("cannotDraw"));
    });
    return [image];
  }
  if (kind === "text") return textView(path, file, signal);
  return [make("div", { class: "placeholder" }, icon(iconFor(file)), make("p", {}, t(kind === "large" ? "tooLargeToShow" : "noPreview")))];
}

/** @param {string} path @param {Entry} file @param {AbortSignal} signal @returns {Promise<Child[]>} */
async function textView(path, file, signal) {
  if (!file.size) return [make("p", { class: "hint" }, t("emptyFile"))];
  const truncated = file.size > MAX_TEXT;
  const data = await (await read(path, { limit: truncated ? MAX_TEXT : 0, signal })).arrayBuffer();
  const text = new TextDecoder().decode(data);
  const note = truncated ? make("p", { class: "hint" }, t("firstPart", { size: bytes(MAX_TEXT) })) : null;
  return [note, make("pre", { dir: "auto" }, text)];
}
