/** The content of a file as elements. It is shown as pixels, sound or text, never as a document that could run scripts. */

import { fileUrl, read, ticketFor } from "../api/client.js";
import { tableView } from "./csv.js";
import { MAX_TEXT } from "./kinds.js";
import { markdownView } from "./markdown.js";
import { mediaView } from "./media-view.js";
import { pagesView } from "./pages-view.js";
import { thumbnailTypes } from "../config.js";
import { make } from "../ui/dom.js";
import { bytes } from "../i18n/formats.js";
import { icon, iconFor } from "../ui/icons.js";
import { t } from "../i18n/i18n.js";

/** @import { Child, Entry } from "../types.js" */
/** @import { Kind } from "./kinds.js" */
/** @typedef {{signal: AbortSignal, urlFor: (blob: Blob) => string, onFailure: (error: Error) => void}} ViewOptions `urlFor`: the address of a blob, until the next file is shown */

/** @param {string} path @param {Entry} file @param {Kind} kind @param {ViewOptions} options @returns {Promise<Child[]>} */
export async function viewOf(path, file, kind, { signal, urlFor, onFailure }) {
  switch (kind) {
    case "image": {
      const data = await (await read(path, { signal })).arrayBuffer();
      return [await picture(urlFor(new Blob([data], { type: file.type })), file.name)];
    }
    case "drawing": {
      // By its own address, where the gateway forbids it to run anything; a blob would be a part of the page.
      const { ticket } = await ticketFor(path, { signal });
      return [await picture(fileUrl(path, { ticket }), file.name)];
    }
    case "video":
    case "audio":
      return [await mediaView(path, kind, file.name, signal, onFailure)];
    case "pdf":
      return thumbnailTypes.includes("application/pdf") ? [await pagesView(path, signal, urlFor)] : placeholder(file, "noPdf");
    case "markdown":
    case "table":
    case "text":
      return textView(path, file, kind, signal);
    default:
      return placeholder(file, kind === "large" ? "tooLargeToShow" : "noPreview");
  }
}

/** @param {Entry} file @param {string} reason a message key */
const placeholder = (file, reason) => [make("div", { class: "placeholder" }, icon(iconFor(file)), make("p", {}, t(reason)))];

/** @param {string} src @param {string} name */
async function picture(src, name) {
  const image = make("img", { src, alt: t("pictureOf", { name }) });
  await image.decode().catch(() => {
    throw new Error(t("cannotDraw"));
  });
  return image;
}

/** @param {string} path @param {Entry} file @param {"markdown" | "table" | "text"} kind @param {AbortSignal} signal @returns {Promise<Child[]>} */
async function textView(path, file, kind, signal) {
  if (!file.size) return [make("p", { class: "hint" }, t("emptyFile"))];
  const cut = file.size > MAX_TEXT;
  const text = decoded(await (await read(path, { limit: cut ? MAX_TEXT : 0, signal })).arrayBuffer(), cut);
  const first = cut ? t("firstPart", { size: bytes(MAX_TEXT) }) : "";
  if (kind === "table") {
    const { note, table } = tableView(text, { cut, name: file.name });
    return [noteOf(note), table];
  }
  return [noteOf(first), kind === "markdown" ? markdownView(text) : numbered(text)];
}

/** @param {string} note */
const noteOf = (note) => (note ? make("p", { class: "hint note" }, note) : null);

/** UTF-8 or UTF-16, else Windows-1252: spreadsheets in much of Europe write it. The last character may be cut. @param {ArrayBuffer} data @param {boolean} cut */
function decoded(data, cut) {
  const [first, second] = new Uint8Array(data, 0, Math.min(2, data.byteLength));
  const encoding = first === 0xff && second === 0xfe ? "utf-16le" : first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
  try {
    return new TextDecoder(encoding, { fatal: encoding === "utf-8" }).decode(data, { stream: cut });
  } catch {
    // A file with zeros is binary; a text that is UTF-8 but for a few bytes is shown as such.
    const text = new TextDecoder().decode(data, { stream: cut });
    const wrong = text.split("\ufffd").length - 1;
    const right = text.match(/[\x80-\ufffc]/g)?.length ?? 0;
    return text.includes("\0") || wrong < right ? text : new TextDecoder("windows-1252").decode(data);
  }
}

/** A text with the numbers of its lines beside it. @param {string} text */
function numbered(text) {
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  const numbers = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
  return make("div", { class: "numbered" }, make("div", { class: "line-numbers", "aria-hidden": "true" }, numbers), make("pre", { dir: "auto" }, text));
}
