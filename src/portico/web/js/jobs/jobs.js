/** Changes that go on in the gateway after it has answered. Emits `change`, and `ended` with a job. */

import { request } from "../api/client.js";
import { ApiError, codeOf, isTemporary, PageError, SignedOut, statusOf } from "../api/errors.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";
import { forgetJob, isRemembered, rememberJob } from "./known-jobs.js";

/** @import { JobBody } from "../types.js" */

const JOBS = "/backend/1.0.0/jobs";
const POLL_INTERVAL = 1000;

/** @typedef {{body: JobBody, cancelling: boolean, found: boolean}} Job `found`: nobody here waits for its end, as after a reload */

/** A job that was cancelled. What was done before that is kept. */
export class Cancelled extends PageError {
  /** @param {string} trashId of what it has deleted, or empty */
  constructor(trashId) {
    super("cancelled", t("jobCancelled"));
    this.trashId = trashId;
  }
}

class Jobs extends EventTarget {
  constructor() {
    super();
    /** @type {Job[]} */
    this.items = [];
    /** Changes that follow when the one before them is done: they exist only on this page. */
    this.queued = 0;
    session.addEventListener("end", () => this.#replace([]));
  }

  /** Find what goes on, and what has ended since this browser has begun it. */
  async load() {
    if (!session.isOpen) return;
    /** @type {JobBody[]} */
    let bodies;
    try {
      bodies = (await (await request("GET", JOBS)).json()).content;
    } catch {
      return; // whatever is wrong, the folder says it
    }
    const known = new Set(this.items.map(({ body }) => body.id));
    for (const body of bodies) {
      if (known.has(body.id) || (body.state !== "running" && !isRemembered(body.id))) continue;
      const job = { body, cancelling: false, found: true };
      this.#replace([...this.items, job]);
      if (body.state === "running") this.#follow(job).catch(() => undefined);
    }
  }

  /**
   * Wait for the end of a job that was just begun.
   * @param {JobBody} body
   * @returns {Promise<JobBody>} of a job that is done; everything else is thrown
   */
  async finished(body) {
    const job = { body, cancelling: false, found: false };
    rememberJob(body.id);
    this.#replace([...this.items, job]);
    try {
      await this.#follow(job);
      if (job.body.state === "failed") throw new ApiError(job.body.problem?.status ?? 500, job.body.problem ?? {}, () => null, { tree: true });
      if (job.body.state === "cancelled") throw new Cancelled(job.body.trashId ?? "");
      return job.body;
    } finally {
      // The code that waited reports it. After a reload, or without a session, nobody has.
      if (session.isOpen && job.body.state !== "running") this.dismiss(job);
    }
  }

  /** @param {Job} job */
  async cancel(job) {
    job.cancelling = true;
    this.#changed();
    try {
      await request("DELETE", `${JOBS}/${job.body.id}`);
    } catch {
      job.cancelling = false;
      this.#changed();
    }
  }

  /** Forget a job that has ended. @param {Job} job */
  dismiss(job) {
    this.#replace(this.items.filter((item) => item !== job));
    forgetJob(job.body.id);
    // If this fails, the gateway forgets it tomorrow.
    request("DELETE", `${JOBS}/${job.body.id}`).catch(() => undefined);
  }

  /** @param {Job} job */
  async #follow(job) {
    while (job.body.state === "running") {
      await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
      if (!this.items.includes(job)) throw new SignedOut();
      try {
        job.body = await (await request("GET", `${JOBS}/${job.body.id}`)).json();
      } catch (error) {
        if (isTemporary(error)) continue;
        if (statusOf(error) === 404 || codeOf(error) === "forbidden") this.#replace(this.items.filter((item) => item !== job));
        throw error;
      }
      this.#changed();
    }
    this.dispatchEvent(new CustomEvent("ended", { detail: job }));
  }

  /** @param {Job[]} items */
  #replace(items) {
    this.items = items;
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export const jobs = new Jobs();
