/** The upload queue: a few requests at a time. Emits `change`, `stored` (items), `resumed` and `idle`. */

import { askConflict } from "../dialogs/dialogs.js";
import { codeOf, SignedOut } from "../api/errors.js";
import { session } from "../api/session.js";
import { NameConflicts } from "./name-conflicts.js";
import { discardUpload } from "./tus.js";
import { canShare, isFile, isLarge, newItem, targetOf } from "./upload-item.js";
import { UploadRunner } from "./upload-runner.js";

/** @import { PickedFile, UploadBatch, UploadItem, UploadPause, UploadState } from "../types.js" */

const CONCURRENCY = 4;
/** The total size of files that share a request. */
const MAX_GROUP_SIZE = 4 * 2 ** 20;
/** How far ahead to look for files of the same folder. */
const LOOK_AHEAD = 1000;

/** @type {Set<UploadState>} */
const UNFINISHED = new Set(["waiting", "running", "asking"]);

export class UploadQueue extends EventTarget {
  constructor() {
    super();
    /** @type {UploadItem[]} */
    this.items = [];
    /** @type {Set<UploadItem>} */
    this.waiting = new Set();
    /** How many requests, or large files, are under way. */
    this.running = 0;
    /** The paths that are being written. @type {Set<string>} */
    this.targets = new Set();
    this.runner = new UploadRunner({
      onChange: () => this.#changed(),
      onStored: (items) => this.#done(items),
      onFailed: (item, error) => this.#failed(item, error),
      onLeft: (item) => this.#wait(item),
      onResumed: () => this.dispatchEvent(new Event("resumed")),
    });
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
    for (const picked of files) {
      const item = newItem(picked, batch);
      this.items.push(item);
      this.waiting.add(item);
    }
    this.#pump();
  }

  get isBusy() {
    return this.waiting.size > 0 || this.items.some((item) => UNFINISHED.has(item.state));
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

  /** Why nothing is sent right now, if that is so. @returns {UploadPause | null} */
  get pause() {
    let pause = null;
    for (const item of this.items) {
      if (item.state !== "running") continue;
      if (!item.pause) return null;
      pause ??= item.pause;
    }
    return pause;
  }

  /** @param {UploadItem} item @returns {Promise<void>} when the gateway has removed what it had of the file */
  async cancel(item) {
    if (!UNFINISHED.has(item.state)) return;
    item.state = "cancelled";
    this.waiting.delete(item);
    item.aborter.abort();
    this.#pump();
    await this.#discard(item);
  }

  /** Give up what the gateway has of a large file. @param {UploadItem} item */
  async #discard(item) {
    item.upload = null;
    if (isFile(item) && isLarge(item)) await discardUpload(item.folder, item.file);
  }

  async cancelAll() {
    await Promise.all(this.items.map((item) => this.cancel(item)));
  }

  /** @param {UploadItem} item */
  retry(item) {
    Object.assign(item, { sent: isLarge(item) ? item.sent : 0, error: null, aborter: new AbortController() });
    this.#wait(item);
    this.#pump();
  }

  retryAll() {
    for (const item of this.items) if (item.state === "failed") this.retry(item);
  }

  async clear() {
    const cancelled = this.cancelAll();
    this.items = [];
    this.#changed();
    await cancelled;
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
      const group = this.#next();
      if (!group.length) break;
      this.#run(group);
    }
    if (!this.isBusy && this.items.length) this.dispatchEvent(new Event("idle"));
  }

  /** A waiting upload, and those that can share a request with it. */
  #next() {
    /** @type {UploadItem[]} */
    const group = [];
    let size = 0;
    let seen = 0;
    for (const item of this.waiting) {
      if ((seen += 1) > LOOK_AHEAD && group.length) break;
      if (this.targets.has(targetOf(item))) continue;
      this.#decide(item);
      if (group.length && !(size + item.size <= MAX_GROUP_SIZE && canShare(group[0], item))) continue;
      group.push(item);
      size += item.size;
      this.targets.add(targetOf(item));
      if (group.length === this.runner.groupSize || !canShare(item, item)) break;
    }
    return group;
  }

  /** Apply the answer that was given for all conflicts. @param {UploadItem} item */
  #decide(item) {
    const { choice } = item.batch;
    // A large file is decided on when there is a conflict: it may go on with an upload that has none.
    if (item.onConflict === "fail" && choice && choice !== "skip" && !isLarge(item)) item.onConflict = choice;
  }

  /** @param {UploadItem[]} group */
  async #run(group) {
    this.running += 1;
    const targets = group.map(targetOf);
    for (const item of group) {
      item.state = "running";
      this.waiting.delete(item);
    }
    await this.runner.run(group);
    for (const target of targets) this.targets.delete(target);
    this.running -= 1;
    this.#pump();
  }

  /** @param {UploadItem} item */
  #wait(item) {
    Object.assign(item, { state: "waiting", pause: null });
    this.waiting.add(item);
  }

  /** @param {UploadItem[]} items */
  #done(items) {
    if (!items.length) return;
    for (const item of items) Object.assign(item, { state: "done", sent: item.size, pause: null });
    this.dispatchEvent(new CustomEvent("stored", { detail: items }));
  }

  /** @param {UploadItem} item @param {unknown} error */
  #failed(item, error) {
    // What the gateway has of a large file stays there.
    if (!isLarge(item)) item.sent = 0;
    item.pause = null;
    if (codeOf(error) === "forbidden") session.dispatchEvent(new Event("refused"));
    if (error instanceof SignedOut) this.#wait(item);
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
      const answer = await askConflict(item.name, { mayReplace: session.mayIn(item.folder, "replace"), others });
      choice = answer.choice;
      if (answer.forAll) item.batch.choice = choice;
    }
    if (item.state !== "asking") return;
    if (choice === "skip") {
      item.state = "skipped";
      this.#discard(item);
    } else {
      item.onConflict = choice;
      this.#wait(item);
    }
    this.#pump();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
