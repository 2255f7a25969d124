/** A look at a picture or a text. Content is shown as pixels or as plain text, never run as a document. */

import { read } from "./api.js";
import { openDialog } from "./dialogs.js";
import { bdi, fill, make } from "./dom.js";
import { bytes, moment } from "./formats.js";
import { icon, iconOf } from "./icons.js";
import { extension, join } from "./paths.js";
import { explained, isAbort } from "./problems.js";
import { t } from "./texts.js";

/** What browsers draw without ever running script in it; SVG is not among them, and is shown as its text. */
const PICTURES = { "image/png": 1, "image/jpeg": 1, "image/gif": 1, "image/webp": 1, "image/avif": 1, "image/bmp": 1 };
const TEXT_TYPES = /^text\/|json|xml|yaml|javascript|x-sh|sql|toml|csv/;
const TEXT_NAMES = /\.(log|ini|conf|cfg|properties|env|toml|md|rst|py|rb|go|rs|java|kt|c|h|cpp|ts|tsx|jsx|sh|sql|lock|gitignore)$/i;
const LARGEST_PICTURE = 40 * 10 ** 6;
const MOST_TEXT = 256 * 1024;

/** @param {import("./listing.js").Entry} entry */
function kindOf(entry) {
  if (entry.type in PICTURES) return entry.size > LARGEST_PICTURE ? "large" : "picture";
  return TEXT_TYPES.test(entry.type) || TEXT_NAMES.test(entry.name) || !extension(entry.name) && entry.size < MOST_TEXT ? "text" : "other";
}

/**
 * @param {string} folder
 * @param {import("./listing.js").Entry[]} entries the files to leaf through
 * @param {import("./listing.js").Entry} entry the one to begin with
 * @param {{onDownload: (entry: import("./listing.js").Entry) => void, onShow: (entry: import("./listing.js").Entry) => void}} handlers
 */
export async function preview(folder, entries, entry, { onDownload, onShow }) {
  let index = entries.indexOf(entry);
  let aborter = new AbortController();
  let address = "";
  const title = bdi("");
  const facts = make("p", { class: "hint" });
  const stage = make("div", { class: "stage", tabindex: "0", role: "group", "aria-label": t("content") });
  const step = (by, drawing, label) => make("button", { type: "button", class: "quiet round", "aria-label": label, title: label, onclick: () => show(index + by) }, icon(drawing));
  const previous = step(-1, "previous", t("previousFile"));
  const next = step(1, "next", t("nextFile"));
  const save = make("button", { type: "button", class: "primary", onclick: () => onDownload(entries[index]) }, icon("download"), t("download"));
  const { dialog, closed } = openDialog([title], { class: "preview", body: [stage], actions: [facts, previous, next, save] });

  const clear = () => {
    aborter.abort();
    aborter = new AbortController();
    if (address) URL.revokeObjectURL(address);
    address = "";
  };
  const show = async (at) => {
    if (at < 0 || at >= entries.length) return;
    clear();
    index = at;
    const file = entries[at];
    const { signal } = aborter;
    title.textContent = file.name;
    facts.textContent = [bytes(file.size ?? 0), moment(file.modified)].filter(Boolean).join(" · ");
    previous.disabled = at === 0;
    next.disabled = at === entries.length - 1;
    onShow(file);
    fill(stage, make("p", { class: "hint" }, t("loading")));
    try {
      const view = await viewOf(folder, file, signal, (blob) => (address = URL.createObjectURL(blob)));
      if (!signal.aborted) fill(stage, ...view);
    } catch (error) {
      if (!isAbort(error)) fill(stage, make("p", { class: "problem", role: "alert" }, ...explained(error)));
    }
  };
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by && stage.scrollWidth <= stage.clientWidth) show(index + by);
  });
  show(index);
  stage.focus();
  await closed;
  clear();
}

async function viewOf(folder, file, signal, addressOf) {
  const path = join(folder, file.name);
  const kind = kindOf(file);
  if (kind === "picture") {
    const content = await (await read(path, { signal })).arrayBuffer();
    const src = addressOf(new Blob([content], { type: file.type }));
    const picture = make("img", { src, alt: t("pictureOf", { name: file.name }) });
    await picture.decode().catch(() => {
      throw new Error(t("cannotDraw"));
    });
    return [picture];
  }
  if (kind === "text") return textView(path, file, signal);
  return [make("div", { class: "state" }, icon(iconOf(file)), make("p", {}, t(kind === "large" ? "tooLargeToShow" : "noPreview")))];
}

async function textView(path, file, signal) {
  if (!file.size) return [make("p", { class: "hint" }, t("emptyFile"))];
  const cut = file.size > MOST_TEXT;
  const content = await (await read(path, { most: cut ? MOST_TEXT : 0, signal })).arrayBuffer();
  const text = new TextDecoder().decode(content);
  const note = cut ? make("p", { class: "hint" }, t("firstPart", { size: bytes(MOST_TEXT) })) : null;
  return [note, make("pre", { dir: "auto" }, text)].filter(Boolean);
}
