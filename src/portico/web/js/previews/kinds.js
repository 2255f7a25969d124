/** Which preview a file has, by its media type and its name. */

import { extension } from "../paths.js";

/** @import { Entry } from "../types.js" */
/** @typedef {"image" | "drawing" | "video" | "audio" | "markdown" | "table" | "pdf" | "text" | "large" | "other"} Kind */

/** Image types that cannot contain scripts. */
const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
const VIDEO_NAMES = /\.(mp4|m4v|webm|ogv|mov|mkv)$/i;
const AUDIO_NAMES = /\.(mp3|m4a|aac|flac|ogg|oga|opus|wav)$/i;
const TABLE_TYPES = /^text\/(csv|tab-separated-values)\b/;
const TEXT_TYPES = /^text\/|json|xml|yaml|javascript|x-sh|sql|toml|csv/;
const TEXT_NAMES = /\.(log|ini|conf|cfg|properties|env|toml|rst|py|rb|go|rs|java|kt|c|h|cpp|ts|tsx|jsx|sh|sql|lock|gitignore)$/i;
const MAX_IMAGE = 40 * 10 ** 6;
/** A drawing is work for the browser: a large one would keep it busy. */
const MAX_DRAWING = 10 ** 6;
export const MAX_TEXT = 256 * 1024;

/** @param {Entry} entry @returns {Kind} */
export function kindOf({ name, type, size = 0 }) {
  if (IMAGE_TYPES.has(type)) return size > MAX_IMAGE ? "large" : "image";
  if (type.startsWith("image/svg")) return size > MAX_DRAWING ? "text" : "drawing";
  if (type.startsWith("video/") || VIDEO_NAMES.test(name)) return "video";
  if (type.startsWith("audio/") || AUDIO_NAMES.test(name)) return "audio";
  if (type === "application/pdf" || /\.pdf$/i.test(name)) return "pdf";
  if (type.startsWith("text/markdown") || /\.(md|markdown)$/i.test(name)) return "markdown";
  if (TABLE_TYPES.test(type) || /\.(csv|tsv)$/i.test(name)) return "table";
  return TEXT_TYPES.test(type) || TEXT_NAMES.test(name) || (!extension(name) && size < MAX_TEXT) ? "text" : "other";
}

/** Whether the source of such a file can be shown instead. @param {Kind} kind */
export const hasSource = (kind) => ["drawing", "markdown", "table"].includes(kind);
