/** Moves, copies, deletions and what undoes them. One that takes more than a second goes on as a job, whose end is waited for. */

import { jobs } from "../jobs/jobs.js";
import { encoded, nameOf } from "../paths.js";
import { fileUrl, nameFromUrl, request, TRASH, trashedIds } from "./client.js";

/** @import { JobBody, OnConflict, RewindBody } from "../types.js" */

const REWINDS = "/backend/1.0.0/rewinds";
const OPTIONS = { tree: true, headers: { Prefer: "respond-async" } };

/**
 * The end of a change.
 * @param {Response} response
 * @param {() => void} [onJob] called if it takes long
 * @returns {Promise<JobBody | null>} of a job that is done, if it became one
 */
async function ended(response, onJob) {
  if (response.status !== 202) return null;
  const body = await response.json();
  onJob?.();
  return jobs.finished(body);
}

/** @typedef {{onJob?: () => void, onTrashed?: (ids: string[]) => void}} Notices `onJob` is called if it takes long, `onTrashed` with what was replaced */

/** @param {string} action @param {string} path @param {string} target @param {OnConflict} onConflict @param {Notices} notices @returns {Promise<string>} the name at the target */
async function transfer(action, path, target, onConflict, { onJob, onTrashed }) {
  const response = await request("POST", fileUrl(path, { action, target, onConflict }), OPTIONS);
  const job = await ended(response, onJob);
  const ids = job ? [job.trashId ?? ""] : trashedIds(response.headers.get("X-Trash-Id"));
  if (ids[0]) onTrashed?.(ids);
  return job ? nameOf(job.result ?? target) : nameFromUrl(response.headers.get("Location") ?? encoded(target));
}

/** @param {string} path @param {string} target @param {OnConflict} [onConflict] @param {Notices} [notices] */
export const move = (path, target, onConflict = "fail", notices = {}) => transfer("MOVE", path, target, onConflict, notices);

/** @param {string} path @param {string} target @param {OnConflict} [onConflict] @param {Notices} [notices] */
export const copy = (path, target, onConflict = "fail", notices = {}) => transfer("COPY", path, target, onConflict, notices);

/** @param {string} path @param {{recursive: boolean, permanent?: boolean}} options @returns {Promise<string>} its id in the trash, or empty if it is gone for good */
export async function remove(path, { recursive, permanent = false }) {
  const query = { ...(recursive ? { recursive: "true" } : {}), ...(permanent ? { permanent: "true" } : {}) };
  const response = await request("DELETE", fileUrl(path, query), OPTIONS);
  const job = await ended(response);
  return (job ? job.trashId : response.headers.get("X-Trash-Id")) ?? "";
}

/** @param {string} id in the trash @param {OnConflict} [onConflict] */
export async function restore(id, onConflict = "fail") {
  await ended(await request("POST", `${TRASH}/${encodeURIComponent(id)}?action=RESTORE&onConflict=${onConflict}`, OPTIONS));
}

export async function emptyTrash() {
  await ended(await request("DELETE", TRASH, OPTIONS));
}

/** What a rewind would do. @param {{since: string, path: string}} changes @param {AbortSignal} signal @returns {Promise<RewindBody>} */
export async function planRewind(changes, signal) {
  return (await request("POST", REWINDS, { json: { ...changes, dryRun: true }, signal })).json();
}

/** Undo one's own changes. @param {{since: string, path: string}} changes @returns {Promise<RewindBody>} */
export async function rewind(changes) {
  const begun = await (await request("POST", REWINDS, { json: changes, tree: true })).json();
  if (!begun.job) return begun;
  await jobs.finished(begun.job);
  return (await request("GET", `${REWINDS}/${begun.id}`)).json();
}
