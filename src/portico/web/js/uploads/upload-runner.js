/** Sends the uploads that the queue has chosen, and reports what becomes of each. */

import { makeFolder } from "../api/client.js";
import { codeOf, InvalidName, isTemporary, PageError, SignedOut } from "../api/errors.js";
import { isName } from "../paths.js";
import { FileGroup } from "./file-group.js";
import { pauseAfter, Retries } from "./retries.js";
import { ResumableUpload } from "./tus.js";
import { isFile, isLarge, isStored } from "./upload-item.js";

/** @import { FileItem, UploadItem } from "../types.js" */
/**
 * @typedef {object} Outcome
 * @property {() => void} onChange
 * @property {(items: UploadItem[]) => void} onStored
 * @property {(item: UploadItem, error: unknown) => void} onFailed
 * @property {(item: UploadItem) => void} onLeft it has to be sent in another request
 * @property {() => void} onResumed
 */

const MAX_GROUP = 100;

export class UploadRunner {
  /** @param {Outcome} outcome */
  constructor(outcome) {
    this.outcome = outcome;
    /** How many small files share a request; fewer after one that failed. */
    this.groupSize = MAX_GROUP;
  }

  /** One upload, or several small files of a folder. @param {UploadItem[]} group */
  async run(group) {
    const [first] = group;
    const files = group.filter(isFile);
    if (!files.length) await this.#settle(first, () => this.#makeFolder(first));
    else if (isLarge(first)) await this.#settle(first, () => this.#sendLarge(files[0]));
    else await this.#sendSmall(files);
  }

  /** @param {UploadItem} item @param {() => Promise<string>} upload returns the name of what was stored */
  async #settle(item, upload) {
    const { aborter } = item;
    try {
      item.stored = await upload();
      if (item.aborter === aborter) this.outcome.onStored([item]);
    } catch (error) {
      if (!aborter.signal.aborted) this.outcome.onFailed(item, error);
    }
  }

  /** @param {FileItem} item @returns {Promise<string>} */
  #sendLarge(item) {
    const { signal } = item.aborter;
    /** @param {Partial<UploadItem>} change */
    const update = (change) => {
      if (signal.aborted) return;
      Object.assign(item, change);
      this.outcome.onChange();
    };
    const upload = new ResumableUpload(item.folder, item.file, {
      onConflict: item.onConflict,
      signal,
      known: item.upload,
      onBegin: (begun) => update({ upload: begun }),
      checkName: () => this.#checkName(item),
      onProgress: (sent) => update({ sent }),
      onPause: (pause) => update({ pause }),
      onReplaced: (replaced) => update({ replaced }),
      onResume: (offset) => {
        update({ resumedAt: offset });
        this.outcome.onResumed();
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
        this.outcome.onChange();
        await retries.wait(error, item.aborter.signal);
      }
    }
  }

  /** @param {FileItem[]} items */
  async #sendSmall(items) {
    await Promise.all(items.map((item) => this.#prepare(item)));
    const ready = items.filter((item) => item.state === "running");
    if (!ready.length) return;
    const group = new FileGroup(ready, { onChange: () => this.outcome.onChange(), onStored: (stored) => this.outcome.onStored(stored) });
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
    if (item.state === "cancelled" && item.sent === item.size && (await isStored(item)) && item.state === "cancelled") this.outcome.onStored([item]);
  }

  /** Settle what needs no request. @param {FileItem} item */
  async #prepare(item) {
    try {
      if (!isName(item.name)) throw new InvalidName();
      if (item.uncertain && (await isStored(item))) {
        if (item.state === "running") this.outcome.onStored([item]);
      } else await this.#checkName(item);
    } catch (error) {
      if (item.state === "running") this.outcome.onFailed(item, error);
    }
  }

  /** A file of a request that failed goes on in another one, unless the error is its own. @param {FileGroup} group @param {FileItem} item @param {unknown} error @param {boolean} shared */
  #leave(group, item, error, shared) {
    const isFirst = item === group.items[0];
    const unreadable = group.unreadable.get(item);
    if (unreadable) this.outcome.onFailed(item, unreadable);
    else if (group.signal.aborted || group.unreadable.size || error instanceof SignedOut) this.outcome.onLeft(item);
    else if (!shared || isTemporary(error) || (isFirst && codeOf(error) === "already-exists")) this.outcome.onFailed(item, error);
    else {
      item.alone ||= isFirst;
      this.outcome.onLeft(item);
    }
    item.sent = 0;
  }

  /** @param {FileItem} item */
  async #checkName(item) {
    if (item.onConflict === "fail" && (await item.batch.conflicts.has(item.folder, item.file))) throw new NameConflict();
  }
}

class NameConflict extends PageError {
  constructor() {
    super("already-exists", "");
  }
}
