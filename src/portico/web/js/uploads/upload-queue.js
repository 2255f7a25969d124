/** The upload queue: a few files at a time. Emits `change`, `stored` (an item) and `idle`. */

import { makeFolder } from "../api/client.js";
import { askConflict } from "../dialogs/dialogs.js";
import { codeOf, PageError, SignedOut } from "../api/errors.js";
import { uploadFile } from "./upload-request.js";
import { session } from "../api/session.js";
import { NameConflicts } from "./name-conflicts.js";

const CONCURRENCY = 4;

/** @import { PickedFile, UploadBatch, UploadItem, UploadState } from "../types.js" */

/** @type {Set<UploadState>} */
const UNFINISHED = new Set(["waiting", "running", "asking"]);

export class UploadQueue extends EventTarget {
  constructor() {
    super();
    /** @type {UploadItem[]} */
    this.items = [];
    this.running = 0;
    /** The questions about conflicts, one after the other. @type {Promise<void>} */
    this.questions = Promise.resolve();
    this.owner = "";
    session.addEventListener("open", () => this.#resume());
  }

  /** @param {import("../folder/listing.js").Listing} listing of the folder that contains all targets @param {PickedFile[]} files */
  add(listing, files) {
    if (!this.isBusy) this.items = this.items.filter((item) => item.state === "failed");
    this.owner = session.username;
    /** @type {UploadBatch} */
    const batch = { choice: null, conflicts: new NameConflicts(listing) };
    for (const { folder, name, file } of files) {
      this.items.push({ folder, name, file, size: file?.size ?? 0, sent: 0, state: "waiting", error: null, stored: name, onConflict: "fail", batch, aborter: new AbortController() });
    }
    this.#pump();
  }

  get isBusy() {
    return this.items.some((item) => UNFINISHED.has(item.state));
  }

  /** @param {UploadState} state */
  count(state) {
    return this.items.reduce((sum, item) => sum + (item.state === state ? 1 : 0), 0);
  }

  /** For the progress bar, without cancelled and skipped files. */
  get totals() {
    let size = 0;
    let sent = 0;
    let files = 0;
    for (const item of this.items) {
      if (item.state === "cancelled" || item.state === "skipped") continue;
      files += 1;
      size += item.size;
      sent += item.state === "done" || item.state === "failed" ? item.size : item.sent;
    }
    return { size, sent, files };
  }

  /** @param {UploadItem} item */
  cancel(item) {
    if (!UNFINISHED.has(item.state)) return;
    item.state = "cancelled";
    item.aborter.abort();
    this.#pump();
  }

  cancelAll() {
    for (const item of this.items) if (UNFINISHED.has(item.state)) this.cancel(item);
  }

  /** @param {UploadItem} item */
  retry(item) {
    Object.assign(item, { state: "waiting", sent: 0, error: null, aborter: new AbortController() });
    this.#pump();
  }

  retryAll() {
    for (const item of this.items) if (item.state === "failed") this.retry(item);
  }

  clear() {
    this.cancelAll();
    this.items = [];
    this.#changed();
  }

  /** Another user does not inherit the queue. */
  #resume() {
    if (this.owner && session.username !== this.owner) this.clear();
    this.#pump();
  }

  /** Start as many waiting uploads as may run. */
  #pump() {
    this.#changed();
    if (!session.isOpen) return;
    while (this.running < CONCURRENCY) {
      const item = this.items.find(({ state }) => state === "waiting");
      if (!item) break;
      this.#run(item);
    }
    if (!this.isBusy && this.items.length) this.dispatchEvent(new Event("idle"));
  }

  /** @param {UploadItem} item */
  async #run(item) {
    this.running += 1;
    item.state = "running";
    const { aborter } = item;
    try {
      await this.#upload(item, aborter.signal);
      if (item.aborter === aborter) Object.assign(item, { state: "done", sent: item.size });
      this.dispatchEvent(new CustomEvent("stored", { detail: item }));
    } catch (error) {
      if (!aborter.signal.aborted) this.#failed(item, error);
    } finally {
      this.running -= 1;
      this.#pump();
    }
  }

  /** @param {UploadItem} item @param {AbortSignal} signal */
  async #upload(item, signal) {
    if (!item.file) {
      await makeFolder(item.folder, signal);
      return;
    }
    if (item.onConflict === "fail" && item.batch.choice && item.batch.choice !== "skip") item.onConflict = item.batch.choice;
    if (item.onConflict === "fail" && (await item.batch.conflicts.has(item.folder, item.file))) throw new NameConflict();
    signal.throwIfAborted();
    /** @param {number} sent */
    const onProgress = (sent) => {
      item.sent = sent;
      this.#changed();
    };
    item.stored = await uploadFile(item.folder, item.file, { onConflict: item.onConflict, signal, onProgress });
  }

  /** @param {UploadItem} item @param {unknown} error */
  #failed(item, error) {
    item.sent = 0;
    if (error instanceof SignedOut) item.state = "waiting";
    else if (codeOf(error) === "already-exists" && item.onConflict === "fail") {
      item.state = "asking";
      this.questions = this.questions.then(() => this.#ask(item));
    } else Object.assign(item, { state: "failed", error });
  }

  /** @param {UploadItem} item */
  async #ask(item) {
    if (item.state !== "asking") return;
    let { choice } = item.batch;
    if (!choice) {
      const others = this.items.some((other) => other !== item && other.batch === item.batch && UNFINISHED.has(other.state));
      const answer = await askConflict(item.name, { mayReplace: session.may("overwrite"), others });
      choice = answer.choice;
      if (answer.forAll) item.batch.choice = choice;
    }
    if (item.state !== "asking") return;
    if (choice === "skip") item.state = "skipped";
    else Object.assign(item, { state: "waiting", onConflict: choice });
    this.#pump();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

class NameConflict extends PageError {
  constructor() {
    super("already-exists", "");
  }
}
