/** Small files: many of one folder in one request, as a form; a single one is the body of a `PUT`. */

import { fileUrl, nameFromUrl, trashedIds } from "../api/client.js";
import { ApiError, isDisconnected } from "../api/errors.js";
import { join } from "../paths.js";
import { checkReadable, pauseAfter, Retries } from "./retries.js";
import { send } from "./upload-request.js";

/** @import { FileItem } from "../types.js" */

export class FileGroup {
  /** @param {FileItem[]} items @param {{onChange: () => void, onStored: (items: FileItem[]) => void}} options */
  constructor(items, { onChange, onStored }) {
    /** Those that are not stored yet. After an error, the first of them is the one that failed. */
    this.items = items;
    this.onChange = onChange;
    this.onStored = onStored;
    /** Aborted when one of the files is cancelled. */
    this.signal = AbortSignal.any(items.map(({ aborter }) => aborter.signal));
    /** Why files cannot be read any more. @type {Map<FileItem, unknown>} */
    this.unreadable = new Map();
    this.retries = new Retries();
    this.key = newKey();
  }

  /** Send the files, again after a cut line, until all are stored or one is refused. */
  async run() {
    for (;;) {
      try {
        await this.#send();
        return this.#stored(this.items.length);
      } catch (error) {
        if (error instanceof ApiError) this.#stored(error.storedCount);
        await this.#recover(error);
      }
    }
  }

  /** The gateway stores the files one after the other. @param {number} count */
  #stored(count) {
    if (!count) return;
    this.onStored(this.items.slice(0, count));
    this.items = this.items.slice(count);
    this.key = newKey();
    this.retries.reset();
  }

  /** Wait until the files can be sent again; otherwise throw the error. @param {unknown} error */
  async #recover(error) {
    if (this.signal.aborted || isDisconnected(error)) {
      // There is no answer: some of them may have been stored.
      for (const item of this.items) item.uncertain = true;
    }
    this.signal.throwIfAborted();
    if (!this.items.length || !this.retries.allow(error)) throw error;
    if (isDisconnected(error)) await this.#checkReadable(error);
    this.#setPause(pauseAfter(error));
    await this.retries.wait(error, this.signal);
  }

  /** @param {unknown} error */
  async #checkReadable(error) {
    for (const item of this.items) await checkReadable(item.file).catch((reason) => this.unreadable.set(item, reason));
    if (this.unreadable.size) throw error;
  }

  /** @param {FileItem["pause"]} pause */
  #setPause(pause) {
    for (const item of this.items) item.pause = pause;
    this.onChange();
  }

  async #send() {
    const [first] = this.items;
    const { method, path, headers, body, starts } = this.items.length === 1 ? putOf(first) : formOf(this.items, this.key);
    this.#setPause(null);
    const request = await send(method, fileUrl(path, { onConflict: first.onConflict }), {
      // When it is sent again under the same key, the gateway knows what it has done before.
      headers: { ...headers, "Idempotency-Key": `"${this.key}"` },
      body,
      signal: this.signal,
      onProgress: (sent) => {
        for (const [index, item] of this.items.entries()) item.sent = Math.min(item.size, Math.max(0, sent - starts[index]));
        this.onChange();
      },
    });
    first.replaced = trashedIds(request.getResponseHeader("X-Trash-Id"));
    const location = request.getResponseHeader("Content-Location");
    if (this.items.length === 1 && location !== null) first.stored = nameFromUrl(location);
  }
}

/** @typedef {{method: string, path: string, headers: Record<string, string>, body: Blob, starts: number[]}} UploadRequest `starts`: where each file begins in the body */

/** @param {FileItem} item @returns {UploadRequest} */
function putOf({ folder, file }) {
  // The browser adds the type of the file.
  return { method: "PUT", path: join(folder, file.name), headers: modifiedHeader(file), body: file, starts: [0] };
}

/** A form, as FormData would be, but with headers in its parts. @param {FileItem[]} items @param {string} key @returns {UploadRequest} */
function formOf(items, key) {
  const boundary = `portico-${key}`;
  /** @type {BlobPart[]} */
  const parts = [];
  /** @type {number[]} */
  const starts = [];
  let position = 0;
  for (const { file } of items) {
    const head = new TextEncoder().encode(`--${boundary}\r\n${headersOf(file)}\r\n`);
    starts.push(position + head.length);
    parts.push(head, file, "\r\n");
    position += head.length + file.size + 2;
  }
  const headers = { "Content-Type": `multipart/form-data; boundary=${boundary}` };
  return { method: "POST", path: items[0].folder, headers, body: new Blob([...parts, `--${boundary}--\r\n`]), starts };
}

/** @param {File} file */
function headersOf(file) {
  const name = encodeURIComponent(file.name).replace(/['()*]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
  const headers = {
    "Content-Disposition": `form-data; name="data"; filename*=UTF-8''${name}`,
    ...(file.type ? { "Content-Type": file.type } : {}),
    ...modifiedHeader(file),
  };
  return Object.entries(headers).map(([field, value]) => `${field}: ${value}\r\n`).join("");
}

/** @param {File} file @returns {Record<string, string>} */
const modifiedHeader = (file) => (file.lastModified > 0 ? { "X-Modified": new Date(file.lastModified).toISOString() } : {});

/** The same length each time: the length of a request is compared when its key is sent again. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
