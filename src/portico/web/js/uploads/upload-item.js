/** What is known of an upload. */

import { stat } from "../api/client.js";
import { session } from "../api/session.js";
import { join } from "../paths.js";

/** @import { FileItem, PickedFile, UploadBatch, UploadItem } from "../types.js" */

/** Smaller files are sent at once: if the line breaks, little has to be sent again. */
const MAX_IN_ONE_REQUEST = 16 * 2 ** 20;

/** @param {PickedFile} picked @param {UploadBatch} batch @returns {UploadItem} */
export const newItem = ({ folder, name, file }, batch) => ({
  folder,
  name,
  file,
  size: file?.size ?? 0,
  sent: 0,
  state: "waiting",
  pause: null,
  resumedAt: null,
  upload: null,
  error: null,
  stored: name,
  onConflict: "fail",
  alone: false,
  uncertain: false,
  replaced: [],
  batch,
  aborter: new AbortController(),
});

/** @param {UploadItem} item @returns {item is FileItem} */
export const isFile = (item) => item.file !== null;

/** Large files are sent in parts. @param {UploadItem} item */
export const isLarge = (item) => item.size > MAX_IN_ONE_REQUEST;

/** @param {UploadItem} item */
export const targetOf = (item) => (item.file ? join(item.folder, item.name) : item.folder);

/** Whether both can be sent in one request. It names one file at most, so those that get a new name are sent alone. @param {UploadItem} a @param {UploadItem} b */
export const canShare = (a, b) => [a, b].every((item) => item.file && !item.alone && !isLarge(item) && item.onConflict !== "rename") && a.folder === b.folder && a.onConflict === b.onConflict;

/** Whether a request without an answer has stored the file. @param {FileItem} item */
export async function isStored({ folder, file, onConflict }) {
  if (onConflict !== "fail" || !session.mayIn(folder, "list")) return false;
  const found = await stat(join(folder, file.name)).catch(() => null);
  return found?.type === "REGULAR" && found.size === file.size && Date.parse(found.lastModified ?? "") === file.lastModified;
}
