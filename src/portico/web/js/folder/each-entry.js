/** A change of several entries, one after the other, and what is said about it in the end. */

import { isAbort, SignedOut } from "../api/errors.js";
import { showFailures } from "../dialogs/dialogs.js";
import { t } from "../i18n/i18n.js";
import { Cancelled, jobs } from "../jobs/jobs.js";
import { nameOf } from "../paths.js";
import { announce, notify } from "../ui/notices.js";

/** @import { Entry } from "../types.js" */
/** @typedef {{entry: Entry, name: string}} Done an entry, and the name that it has now */
/** @typedef {{after: (done: Done[]) => void, success: string, failure: string, undo?: () => {label: string, run: () => void} | undefined}} Outcome `success` and `failure` are message keys */

/**
 * One after the other. Failures are listed at the end.
 * @param {Entry[]} entries
 * @param {Outcome & {act: (entry: Entry) => Promise<string | null>, target?: string}} options `act` returns the new name, or null if it skipped the entry
 */
export async function forEach(entries, { act, after, success, failure, target = "", undo }) {
  /** @type {Done[]} */
  const done = [];
  const failures = [];
  if (entries.length > 1) announce(t("working", { count: entries.length }));
  let queued = entries.length;
  jobs.queued += queued;
  for (const entry of entries) {
    queued -= 1;
    jobs.queued -= 1;
    try {
      const name = await act(entry);
      if (name !== null) done.push({ entry, name });
    } catch (error) {
      if (isAbort(error) || error instanceof SignedOut) break;
      if (error instanceof Cancelled) {
        notify(error.message, done.length ? undefined : undo?.());
        break;
      }
      failures.push({ name: entry.name, error });
    }
  }
  jobs.queued -= queued;
  after(done);
  const folder = target === "/" ? t("root") : nameOf(target);
  const storedAs = done.length === 1 && done[0].name !== done[0].entry.name ? t("storedAs", { name: done[0].name }) : "";
  if (done.length) notify([t(success, { count: done.length, name: folder }), storedAs].filter(Boolean).join(" · "), undo?.());
  if (failures.length) await showFailures(t(failure, { count: failures.length }), failures);
}
