/** The preview of a file, and of its neighbours in the folder. */

import { openDialog } from "./dialogs.js";
import { arrowStep, bdi, closest, fill, make } from "../ui/dom.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { icon } from "../ui/icons.js";
import { join } from "../paths.js";
import { hasSource, kindOf } from "../previews/kinds.js";
import { viewOf } from "../previews/view.js";
import { errorContent, isAbort } from "../api/errors.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** @import { Entry } from "../types.js" */

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
  /** @type {string[]} */
  let objectUrls = [];
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
  /** Whether the text of a file is shown, where there is something better. */
  let asSource = false;
  const source = make("button", { type: "button", class: "quiet round", "aria-label": t("showSource"), title: t("showSource"), "aria-pressed": "false", onclick: () => setSource(!asSource) }, icon("code"));
  /** @param {boolean} on */
  const setSource = (on) => {
    asSource = on;
    source.setAttribute("aria-pressed", String(on));
    show(index);
  };
  content.addEventListener("click", (event) => { if (closest(event, "img") && !zoom.hidden) setZoom(!isZoomed()); });
  const save = make("button", { type: "button", class: "primary", onclick: () => onDownload(entries[index]) }, icon("download"), t("download"));
  const { dialog, closed } = openDialog([title], { class: "preview", body: [content], actions: [facts, zoom, source, previous, next, save] });

  const clear = () => {
    aborter.abort();
    aborter = new AbortController();
    for (const url of objectUrls) URL.revokeObjectURL(url);
    objectUrls = [];
  };
  /** @param {Blob} blob */
  const urlFor = (blob) => {
    const url = URL.createObjectURL(blob);
    objectUrls.push(url);
    return url;
  };
  /** @param {number} at */
  const show = async (at) => {
    if (at < 0 || at >= entries.length) return;
    clear();
    index = at;
    const file = entries[at];
    const { signal } = aborter;
    title.textContent = visible(file.name);
    facts.textContent = [bytes(file.size ?? 0), dateTime(file.modified)].filter(Boolean).join(" · ");
    previous.disabled = at === 0;
    next.disabled = at === entries.length - 1;
    onShow(file);
    setZoom(false);
    const natural = kindOf(file);
    const kind = asSource && hasSource(natural) ? "text" : natural;
    zoom.hidden = kind !== "image" && kind !== "drawing";
    source.hidden = !hasSource(natural);
    content.dataset.kind = kind;
    /** @param {unknown} error */
    const onFailure = (error) => {
      if (!isAbort(error) && !signal.aborted) fill(content, make("p", { class: "error", role: "alert" }, ...errorContent(error)));
    };
    fill(content, make("p", { class: "hint" }, t("loading")));
    try {
      const view = await viewOf(join(folder, file.name), file, kind, { signal, urlFor, onFailure });
      if (!signal.aborted) fill(content, ...view);
    } catch (error) {
      onFailure(error);
    }
  };
  dialog.addEventListener("keydown", (event) => {
    // A player has its own use for the arrows.
    const step = closest(event, "video, audio") ? 0 : arrowStep(event);
    if (event.key.toLowerCase() === "z" && !event.ctrlKey && !event.metaKey && !event.altKey && !zoom.hidden) zoom.click();
    if (step && content.scrollWidth <= content.clientWidth) show(index + step);
  });
  show(index);
  content.focus();
  return { close: () => dialog.close(), closed: closed.then(clear) };
}
