/** The uploads: a few at a time, each with its fate. Emits `change`, `stored` (an item) and `idle`. */

import { makeFolder } from "./api.js";
import { askConflict } from "./dialogs.js";
import { SignedOut } from "./problems.js";
import { sendFile } from "./sending.js";
import { session } from "./session.js";
import { Taken } from "./taken.js";

const AT_ONCE = 4;

/**
 * @typedef {"waiting" | "running" | "asking" | "done" | "failed" | "skipped" | "cancelled"} State
 * @typedef {{choice: string | null, taken: Taken}} Batch
 * @typedef {{folder: string, name: string, file: File | null, size: number, sent: number, state: State, error: Error | null,
 *   stored: string, onConflict: string, batch: Batch, aborter: AbortController}} Item an upload; without a file it is an empty folder
 */

const OPEN = new Set(["waiting", "running", "asking"]);

export class Queue extends EventTarget {
  constructor() {
    super();
    /** @type {Item[]} */
    this.items = [];
    this.running = 0;
    this.questions = Promise.resolve();
    this.owner = "";
    session.addEventListener("open", () => this.#resume());
  }

  /** @param {import("./listing.js").Listing} listing @param {{folder: string, name: string, file: File | null}[]} uploads */
  add(listing, uploads) {
    if (!this.isBusy) this.items = this.items.filter((item) => item.state === "failed");
    this.owner = session.username;
    const batch = { choice: null, taken: new Taken(listing) };
    for (const { folder, name, file } of uploads) {
      this.items.push({ folder, name, file, size: file?.size ?? 0, sent: 0, state: "waiting", error: null, stored: name, onConflict: "fail", batch, aborter: new AbortController() });
    }
    this.#pump();
  }

  get isBusy() {
    return this.items.some((item) => OPEN.has(item.state));
  }

  /** @param {State} state */
  count(state) {
    return this.items.reduce((sum, item) => sum + (item.state === state ? 1 : 0), 0);
  }

  /** What counts for progress: cancelled and skipped files do not. */
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

  cancel(item) {
    if (!OPEN.has(item.state)) return;
    item.state = "cancelled";
    item.aborter.abort();
    this.#pump();
  }

  cancelAll() {
    for (const item of this.items) if (OPEN.has(item.state)) this.cancel(item);
  }

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

  #resume() {
    if (this.owner && session.username !== this.owner) this.clear();
    this.#pump();
  }

  #pump() {
    this.#changed();
    if (!session.isOpen) return;
    while (this.running < AT_ONCE) {
      const item = this.items.find(({ state }) => state === "waiting");
      if (!item) break;
      this.#run(item);
    }
    if (!this.isBusy && this.items.length) this.dispatchEvent(new Event("idle"));
  }

  /** @param {Item} item */
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

  async #upload(item, signal) {
    if (!item.file) {
      await makeFolder(item.folder, signal);
      return;
    }
    if (item.onConflict === "fail" && item.batch.choice && item.batch.choice !== "skip") item.onConflict = item.batch.choice;
    if (item.onConflict === "fail" && (await item.batch.taken.holds(item.folder, item.file))) throw new NameTaken();
    signal.throwIfAborted();
    const onProgress = (sent) => {
      item.sent = sent;
      this.#changed();
    };
    item.stored = await sendFile(item.folder, item.file, { onConflict: item.onConflict, signal, onProgress });
  }

  #failed(item, error) {
    item.sent = 0;
    if (error instanceof SignedOut) item.state = "waiting";
    else if (error.code === "already-exists" && item.onConflict === "fail") {
      item.state = "asking";
      this.questions = this.questions.then(() => this.#ask(item));
    } else Object.assign(item, { state: "failed", error });
  }

  async #ask(item) {
    if (item.state !== "asking") return;
    let { choice } = item.batch;
    if (!choice) {
      const others = this.items.some((other) => other !== item && other.batch === item.batch && OPEN.has(other.state));
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

class NameTaken extends Error {
  code = "already-exists";
}
