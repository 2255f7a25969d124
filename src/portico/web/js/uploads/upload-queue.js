/** The upload queue: a few requests at a time. Emits `change`, `stored` (items), `resumed` and `idle`. */

import { makeFolder, stat } from "../api/client.js";
import { askConflict } from "../dialogs/dialogs.js";
import { codeOf, InvalidName, isTemporary, PageError, SignedOut } from "../api/errors.js";
import { isName, join } from "../paths.js";
import { FileGroup } from "./file-group.js";
import { pauseAfter, Retries } from "./retries.js";
import { session } from "../api/session.js";
import { NameConflicts, STAT_THRESHOLD } from "./name-conflicts.js";
import { discardUpload, ResumableUpload } from "./tus.js";

/** @import { FileItem, PickedFile, UploadBatch, UploadItem, UploadPause, UploadState } from "../types.js" */

const CONCURRENCY = 4;
/** Larger files are sent in parts, each in a request of its own. */
const LARGE = STAT_THRESHOLD;
/** How much smaller files share a request. */
const MAX_GROUP = 100;
const MAX_GROUP_SIZE = 4 * 2 ** 20;
/** How far ahead to look for files of the same folder. */
const LOOK_AHEAD = 1000;

/** @type {Set<UploadState>} */
const UNFINISHED = new Set(["waiting", "running", "asking"]);

/** @param {UploadItem} item @returns {item is FileItem} */
const isFile = (item) => item.file !== null;

/** @param {UploadItem} item */
const isLarge = (item) => item.size > LARGE;

/** @param {UploadItem} item */
const targetOf = (item) => (item.file ? join(item.folder, item.name) : item.folder);

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
    this.groupSize = MAX_GROUP;
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
      /** @type {UploadItem} */
      const item = { folder, name, file, size: file?.size ?? 0, sent: 0, state: "waiting", pause: null, resumedAt: null, upload: null, error: null, stored: name, onConflict: "fail", alone: false, uncertain: false, batch, aborter: new AbortController() };
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
    item.upload = null;
    this.#pump();
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
      if (group.length === this.groupSize || !canShare(item, item)) break;
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
    const [first] = group;
    const files = group.filter(isFile);
    if (!files.length) await this.#settle(first, () => this.#makeFolder(first));
    else if (isLarge(first)) await this.#settle(first, () => this.#sendLarge(files[0]));
    else await this.#sendSmall(files);
    for (const target of targets) this.targets.delete(target);
    this.running -= 1;
    this.#pump();
  }

  /** @param {UploadItem} item @param {() => Promise<string>} upload returns the name of what was stored */
  async #settle(item, upload) {
    const { aborter } = item;
    try {
      item.stored = await upload();
      if (item.aborter === aborter) this.#done([item]);
    } catch (error) {
      if (!aborter.signal.aborted) this.#failed(item, error);
    }
  }

  /** @param {FileItem} item @returns {Promise<string>} */
  #sendLarge(item) {
    const { signal } = item.aborter;
    /** @param {Partial<UploadItem>} change */
    const update = (change) => {
      if (signal.aborted) return;
      Object.assign(item, change);
      this.#changed();
    };
    const upload = new ResumableUpload(item.folder, item.file, {
      onConflict: item.onConflict,
      signal,
      known: item.upload,
      onBegin: (begun) => update({ upload: begun }),
      checkName: () => this.#checkName(item),
      onProgress: (sent) => update({ sent }),
      onPause: (pause) => update({ pause }),
      onResume: (offset) => {
        update({ resumedAt: offset });
        this.dispatchEvent(new Event("resumed"));
      },
    });
    return upload.run();
  }

  /** @param {UploadItem} item @returns {Promise<string>} */
  async #makeFolder(item) {
    const retries = new Retries();
    for (;;) {
      try {
        await makeFolder(item.folder, item.aborter.signal);
        return item.name;
      } catch (error) {
        if (!retries.allow(error)) throw error;
        item.pause = pauseAfter(error);
        this.#changed();
        await retries.wait(error, item.aborter.signal);
      }
    }
  }

  /** @param {FileItem[]} items */
  async #sendSmall(items) {
    await Promise.all(items.map((item) => this.#prepare(item)));
    const ready = items.filter((item) => item.state === "running");
    if (!ready.length) return;
    const group = new FileGroup(ready, { onChange: () => this.#changed(), onStored: (stored) => this.#done(stored) });
    try {
      await group.run();
      if (ready.length === this.groupSize) this.groupSize = Math.min(MAX_GROUP, this.groupSize * 2);
    } catch (error) {
      if (ready.length > 1 && !group.signal.aborted) this.groupSize = Math.floor(ready.length / 2);
      for (const item of group.items) if (item.state === "running") this.#leave(group, item, error, ready.length > 1);
      await Promise.all(group.items.map((item) => this.#checkCancelled(item)));
    }
  }

  /** A file of a request that was aborted may have been stored before. @param {FileItem} item */
  async #checkCancelled(item) {
    if (item.state === "cancelled" && item.sent === item.size && (await isStored(item)) && item.state === "cancelled") this.#done([item]);
  }

  /** Settle what needs no request. @param {FileItem} item */
  async #prepare(item) {
    try {
      if (!isName(item.name)) throw new InvalidName();
      if (item.uncertain && (await isStored(item))) this.#done([item]);
      else await this.#checkName(item);
    } catch (error) {
      if (!item.aborter.signal.aborted) this.#failed(item, error);
    }
  }

  /** A file of a request that failed goes on in another one, unless the error is its own. @param {FileGroup} group @param {FileItem} item @param {unknown} error @param {boolean} shared */
  #leave(group, item, error, shared) {
    const isFirst = item === group.items[0];
    const unreadable = group.unreadable.get(item);
    if (unreadable) this.#failed(item, unreadable);
    else if (group.signal.aborted || group.unreadable.size || error instanceof SignedOut) this.#wait(item);
    else if (!shared || isTemporary(error) || (isFirst && codeOf(error) === "already-exists")) this.#failed(item, error);
    else {
      item.alone ||= isFirst;
      this.#wait(item);
    }
    item.sent = 0;
  }

  /** @param {FileItem} item */
  async #checkName(item) {
    if (item.onConflict === "fail" && (await item.batch.conflicts.has(item.folder, item.file))) throw new NameConflict();
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
      const answer = await askConflict(item.name, { mayReplace: session.may("overwrite"), others });
      choice = answer.choice;
      if (answer.forAll) item.batch.choice = choice;
    }
    if (item.state !== "asking") return;
    if (choice === "skip") item.state = "skipped";
    else {
      item.onConflict = choice;
      this.#wait(item);
    }
    this.#pump();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** Whether both can be sent in one request. It names one file at most, so those that get a new name are sent alone. @param {UploadItem} a @param {UploadItem} b */
const canShare = (a, b) => [a, b].every((item) => item.file && !item.alone && !isLarge(item) && item.onConflict !== "rename") && a.folder === b.folder && a.onConflict === b.onConflict;

/** Whether a request without an answer has stored the file. @param {FileItem} item */
async function isStored({ folder, file, onConflict }) {
  if (onConflict !== "fail" || !session.may("list")) return false;
  const found = await stat(join(folder, file.name)).catch(() => null);
  return found?.type === "REGULAR" && found.size === file.size && Date.parse(found.lastModified ?? "") === file.lastModified;
}

class NameConflict extends PageError {
  constructor() {
    super("already-exists", "");
  }
}
