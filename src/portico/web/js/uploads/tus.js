/** Files that are sent in parts and go on where they were: a client of the tus protocol 1.0 (https://tus.io). */

import { base64 } from "../api/base64.js";
import { nameFromUrl, request, trashedIds } from "../api/client.js";
import { ApiError, codeOf, isDisconnected, statusOf } from "../api/errors.js";
import { forgetUpload, knownUpload, rememberUpload } from "./known-uploads.js";
import { PartSize } from "./part-size.js";
import { checkReadable, pauseAfter, Retries } from "./retries.js";
import { send } from "./upload-request.js";

/** @import { OnConflict, UploadPause } from "../types.js" */
/**
 * @typedef {object} ResumableOptions
 * @property {OnConflict} onConflict
 * @property {AbortSignal} signal
 * @property {KnownUpload | null} known what it was before, if another tab has finished it since
 * @property {(upload: KnownUpload) => void} onBegin
 * @property {() => Promise<void>} checkName throws if the name exists
 * @property {(sent: number) => void} onProgress
 * @property {(pause: UploadPause | null) => void} onPause
 * @property {(offset: number) => void} onResume
 * @property {(ids: string[]) => void} onReplaced with the ids in the trash
 */
/** @typedef {import("./known-uploads.js").KnownUpload} KnownUpload */
/** @typedef {{offset: number, stored: string | null}} Progress `stored`: the name of the complete file */

const UPLOADS = "/backend/1.0.0/uploads";
const TUS = { "Tus-Resumable": "1.0.0" };
/** How often, without progress, an upload that is gone begins anew, or one that is out of step asks for its offset. */
const MAX_RESTARTS = 3;

/** Tells the other tabs which upload this one goes on with. */
const takeovers = new BroadcastChannel("portico.uploads");

class TakenOver extends ApiError {
  constructor() {
    super(409, { code: "upload-taken-over" }, () => null);
  }
}

export class ResumableUpload {
  /** @param {string} folder @param {File} file @param {ResumableOptions} options */
  constructor(folder, file, options) {
    this.folder = folder;
    this.file = file;
    this.options = options;
    this.id = "";
    this.offset = 0;
    this.part = new PartSize();
    /** Whether a part is on its way. */
    this.sending = false;
    this.retries = new Retries();
    this.restarts = 0;
    /** Whether the name is known to be free, or what to do if it is not. */
    this.nameChecked = false;
  }

  /** @returns {Promise<string>} the name that the file was stored under */
  async run() {
    const { signal } = this.options;
    const takenOver = new AbortController();
    /** @param {MessageEvent<string>} event */
    const onTakeover = ({ data }) => data === this.id && takenOver.abort(new TakenOver());
    takeovers.addEventListener("message", onTakeover);
    try {
      const stored = await this.#run(AbortSignal.any([signal, takenOver.signal]));
      forgetUpload(this.folder, this.file);
      return stored;
    } finally {
      takeovers.removeEventListener("message", onTakeover);
    }
  }

  /** @param {AbortSignal} signal */
  async #run(signal) {
    let resuming = await this.#findKnown();
    for (;;) {
      try {
        const stored = resuming ? await this.#resume(signal) : null;
        return stored ?? (await this.#send(signal));
      } catch (error) {
        signal.throwIfAborted();
        resuming = await this.#recover(error, signal);
      }
    }
  }

  /** Whether there is something to go on with. */
  async #findKnown() {
    const known = knownUpload(this.folder, this.file) ?? this.options.known;
    if (!known) return false;
    // What happens to an existing file is part of an upload, and cannot be changed.
    if (this.options.onConflict !== "fail" && known.onConflict !== this.options.onConflict) {
      await discardUpload(this.folder, this.file);
      return false;
    }
    this.id = known.id;
    this.options.onBegin(known);
    this.nameChecked = known.onConflict !== "fail";
    takeovers.postMessage(this.id);
    return true;
  }

  /** Ask how much has arrived. @param {AbortSignal} signal @returns {Promise<string | null>} the name of the file, if that was all */
  async #resume(signal) {
    const { onPause, onProgress, onResume } = this.options;
    onPause("resuming");
    // This also stores a complete file, which can fail as the last part can.
    const answer = await send("HEAD", addressOf(this.id), { headers: TUS, signal });
    const { offset, stored } = progressOf(answer);
    if (stored !== null) return stored;
    await this.#checkName();
    if (offset > this.offset) this.retries.reset();
    this.offset = offset;
    onProgress(offset);
    onResume(offset);
    return null;
  }

  /** Send the rest. @param {AbortSignal} signal @returns {Promise<string>} */
  async #send(signal) {
    const { onPause, onProgress, onReplaced } = this.options;
    const { file } = this;
    if (!this.id) await this.#create(signal);
    onPause(null);
    for (;;) {
      const start = this.offset;
      this.sending = true;
      const answer = await send("PATCH", addressOf(this.id), {
        headers: { ...TUS, "Content-Type": "application/offset+octet-stream", "Upload-Offset": String(start) },
        body: file.slice(start, start + this.part.bytes),
        signal,
        onProgress: (sent) => onProgress(Math.min(file.size, start + sent)),
      });
      this.sending = false;
      const { offset, stored } = progressOf(answer);
      this.offset = offset;
      this.part.succeeded();
      this.retries.reset();
      this.restarts = 0;
      onProgress(offset);
      if (offset < file.size) continue;
      onReplaced(trashedIds(answer.getResponseHeader("X-Trash-Id")));
      return stored ?? file.name;
    }
  }

  /** @param {AbortSignal} signal */
  async #create(signal) {
    const { file, folder } = this;
    const { onConflict } = this.options;
    await this.#checkName();
    signal.throwIfAborted();
    const metadata = {
      filename: file.name,
      folder,
      onConflict,
      ...(file.type ? { filetype: file.type } : {}),
      ...(file.lastModified > 0 ? { modified: new Date(file.lastModified).toISOString() } : {}),
    };
    const pairs = Object.entries(metadata).map(([key, value]) => `${key} ${base64(value)}`);
    // Not aborted with the upload: its answer is needed to remove what it began.
    const answer = await send("POST", UPLOADS, { headers: { ...TUS, "Upload-Length": String(file.size), "Upload-Metadata": pairs.join(",") } });
    this.id = nameFromUrl(answer.getResponseHeader("Location") ?? "");
    this.offset = 0;
    this.options.onProgress(0);
    const begun = { id: this.id, onConflict, expires: expiryOf(answer) };
    rememberUpload(folder, file, begun);
    this.options.onBegin(begun);
    if (!signal.aborted) return;
    if (this.options.signal.aborted) await discardUpload(folder, file);
    signal.throwIfAborted();
  }

  async #checkName() {
    if (!this.nameChecked) await this.options.checkName();
    this.nameChecked = true;
  }

  /** A file that has changed has nothing in common with what the gateway has of it. */
  async #checkReadable() {
    try {
      await checkReadable(this.file);
    } catch (error) {
      await discardUpload(this.folder, this.file);
      throw error;
    }
  }

  /** What to do about an error. @param {unknown} error @param {AbortSignal} signal @returns {Promise<boolean>} whether to go on with the same upload */
  async #recover(error, signal) {
    const { onPause, onProgress } = this.options;
    const { sending } = this;
    this.sending = false;
    const isGone = statusOf(error) === 404;
    if (this.id && (isGone || codeOf(error) === "offset-mismatch") && (this.restarts += 1) <= MAX_RESTARTS) {
      // A browser sends a request again by itself if its connection breaks early.
      if (!isGone) return true;
      this.id = "";
      forgetUpload(this.folder, this.file);
      onProgress(0);
      return false;
    }
    const isTooLarge = statusOf(error) === 413 && !codeOf(error) && !this.part.isSmallest;
    if (!isTooLarge && !this.retries.allow(error)) throw error;
    if (isDisconnected(error)) await this.#checkReadable();
    if (sending) this.part.failed({ tooLarge: isTooLarge });
    onPause(pauseAfter(error));
    await this.retries.wait(error, signal);
    return this.id !== "";
  }
}

/** Give up what the gateway has of a file. @param {string} folder @param {File} file */
export async function discardUpload(folder, file) {
  const known = knownUpload(folder, file);
  if (!known) return;
  forgetUpload(folder, file);
  // What cannot be removed now expires.
  await request("DELETE", addressOf(known.id), { headers: TUS, signal: AbortSignal.timeout(10_000) }).catch(() => undefined);
}

/** @param {string} id */
const addressOf = (id) => `${UPLOADS}/${encodeURIComponent(id)}`;

/** @param {XMLHttpRequest} answer @returns {Progress} */
function progressOf(answer) {
  const location = answer.getResponseHeader("Content-Location");
  // A guest is sent the entry itself, with the receipt.
  const body = answer.responseText.startsWith("{") ? JSON.parse(answer.responseText).content?.[0]?.name : null;
  return { offset: Number(answer.getResponseHeader("Upload-Offset")), stored: location === null ? (body ?? null) : nameFromUrl(location) };
}

/** @param {XMLHttpRequest} answer */
const expiryOf = (answer) => Date.parse(answer.getResponseHeader("Upload-Expires") ?? "") || Date.now();
