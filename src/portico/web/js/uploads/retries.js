/** When a failed request is sent again. */

import { ApiError, FileChanged, isDisconnected, isTemporary } from "../api/errors.js";

/** @import { UploadPause } from "../types.js" */

const FIRST_DELAY = 1000;
const MAX_DELAY = 30_000;
/** A gateway that answers is asked this often in a row. A line that is down is waited for as long as it takes. */
const MAX_REFUSALS = 8;

export class Retries {
  constructor() {
    this.failures = 0;
    this.refusals = 0;
  }

  /** Something has arrived: the next failure is a first one. */
  reset() {
    this.failures = this.refusals = 0;
  }

  /** Whether to try again after this error. @param {unknown} error */
  allow(error) {
    if (isDisconnected(error)) return true;
    this.refusals += 1;
    return isTemporary(error) && this.refusals <= MAX_REFUSALS;
  }

  /** Wait before the next attempt: longer each time, and at least as long as the gateway asks for. @param {unknown} error @param {AbortSignal} signal */
  async wait(error, signal) {
    const longest = Math.min(MAX_DELAY, FIRST_DELAY * 2 ** this.failures);
    // Many files, and many browsers, should not come back at the same moment.
    const delay = longest * (0.5 + Math.random() / 2);
    this.failures += 1;
    await pause(Math.max(delay, error instanceof ApiError ? error.retryAfter * 1000 : 0), signal);
  }
}

/** What an upload does after an error that it survives. @param {unknown} error @returns {UploadPause} */
export const pauseAfter = (error) => (isDisconnected(error) ? "disconnected" : "retrying");

/** Ends early when the browser is online again, or the tab is looked at: timers sleep in the background. @param {number} delay @param {AbortSignal} signal @returns {Promise<void>} */
function pause(delay, signal) {
  return new Promise((resolve, reject) => {
    const listeners = new AbortController();
    const timer = setTimeout(end, delay);
    function end() {
      listeners.abort();
      clearTimeout(timer);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    }
    addEventListener("online", end, listeners);
    document.addEventListener("visibilitychange", end, listeners);
    signal.addEventListener("abort", end, listeners);
    if (signal.aborted) end();
  });
}

/** `FileChanged` if it was changed, moved or deleted since it was chosen: to the browser that looks like a broken line. @param {File} file */
export async function checkReadable(file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new FileChanged();
  }
}
