/** The panel that shows long changes: what is done of them, and a button to cancel. */

import { restore } from "../api/changes.js";
import { ApiError, errorText } from "../api/errors.js";
import { session } from "../api/session.js";
import { bytes, number } from "../i18n/formats.js";
import { hasMessage, t } from "../i18n/i18n.js";
import { nameOf } from "../paths.js";
import { bdi, fill, make, sentence } from "../ui/dom.js";
import { icon, setIcon } from "../ui/icons.js";
import { announce, notify, notifyError } from "../ui/notices.js";
import { jobs } from "./jobs.js";
import { visible } from "../visible-text.js";

/** @import { JobBody } from "../types.js" */
/** @import { Job } from "./jobs.js" */
/** @typedef {ReturnType<typeof makeRow>} Row */

export class JobPanel {
  constructor() {
    this.list = make("ul", {});
    this.element = make("section", { class: "job-panel", hidden: true, "aria-labelledby": "job-panel-title" },
      make("h2", { id: "job-panel-title" }, t("jobs")), this.list);
    /** @type {Map<Job, Row>} */
    this.rows = new Map();
    new ResizeObserver(() => document.body.style.setProperty("--job-panel-height", `${this.element.offsetHeight}px`)).observe(this.element);
    jobs.addEventListener("change", () => this.#draw());
    jobs.addEventListener("ended", (event) => {
      const job = /** @type {CustomEvent<Job>} */ (event).detail;
      if (job.found) announce(`${titleOf(job.body)}: ${stateText(job)}`);
    });
  }

  #draw() {
    this.element.hidden = !jobs.items.length;
    document.body.classList.toggle("has-job-panel", !this.element.hidden);
    for (const [job, row] of this.rows) {
      if (jobs.items.includes(job)) continue;
      row.element.remove();
      this.rows.delete(job);
    }
    for (const job of jobs.items) {
      let row = this.rows.get(job);
      if (!row) {
        row = makeRow(job);
        this.rows.set(job, row);
        this.list.append(row.element);
        announce(titleOf(job.body));
      }
      show(row, job);
    }
  }
}

/** @param {Job} job */
function makeRow(job) {
  const parts = { icon: icon("retry"), state: make("span", { class: "state" }), bar: make("progress", { max: "1" }) };
  const button = make("button", { type: "button", class: "small", onclick: () => (job.body.state === "running" ? jobs.cancel(job) : jobs.dismiss(job)) });
  const undo = make("button", { type: "button", class: "small", hidden: true, onclick: () => bringBack(job, undo) }, t("undo"));
  const name = make("span", { class: "name", title: visible(job.body.source) }, ...titleParts(job.body));
  const element = make("li", { class: "job" }, parts.icon, make("div", { class: "details" }, name, parts.state, parts.bar), undo, button);
  return { ...parts, element, button, undo };
}

/** @param {Row} row @param {Job} job */
function show(row, job) {
  const { state, entriesDone, entriesTotal } = job.body;
  const running = state === "running";
  const name = nameOf(job.body.source);
  row.element.dataset.state = state;
  setIcon(row.icon, state === "done" ? "check" : state === "failed" ? "warning" : state === "cancelled" ? "close" : iconOf(job.body));
  fill(row.state, stateText(job));
  row.bar.hidden = !running;
  row.bar.setAttribute("aria-label", t("jobProgress", { name }));
  // Without a value, the bar shows only that something is going on.
  if (entriesTotal && !job.cancelling) row.bar.value = Math.min(1, entriesDone / entriesTotal);
  else row.bar.removeAttribute("value");
  row.undo.hidden = running || !mayUndo(job.body);
  row.undo.setAttribute("aria-label", t("undoName", { name }));
  row.button.disabled = running && job.cancelling;
  row.button.textContent = t(running ? "cancel" : "dismiss");
  row.button.setAttribute("aria-label", running ? t("cancelName", { name }) : t("dismissName", { name }));
}

/** Whether it has deleted something that can be brought back. @param {JobBody} body */
const mayUndo = ({ kind, trashId, source }) => kind === "delete" && Boolean(trashId) && session.mayIn(source, "upload", "overwrite");

/** @param {Job} job @param {HTMLButtonElement} button */
async function bringBack(job, button) {
  button.disabled = true;
  try {
    // If it was not done, the folder is still there, with the rest.
    await restore(job.body.trashId ?? "", job.body.state === "done" ? "fail" : "replace");
    jobs.dismiss(job);
    notify(t("restored", { count: 1 }));
    jobs.dispatchEvent(new CustomEvent("ended", { detail: { ...job, found: false } }));
  } catch (error) {
    notifyError(error);
    button.disabled = false;
  }
}

/** @param {JobBody} body */
function iconOf({ kind }) {
  if (["delete", "remove", "empty"].includes(kind)) return "trash";
  return kind === "move" || kind === "copy" ? kind : "retry";
}

/** @param {JobBody} body */
const messageOf = ({ kind }) => (hasMessage(`job_${kind}`) ? `job_${kind}` : "job_other");

/** @param {JobBody} body */
const titleOf = (body) => t(messageOf(body), { name: nameOf(body.source) });

/** @param {JobBody} body */
const titleParts = (body) => sentence(t(messageOf(body)), { name: bdi(nameOf(body.source)) });

/** @param {Job} job */
function stateText({ body, cancelling }) {
  if (body.state === "failed") return body.problem ? errorText(new ApiError(body.problem.status, body.problem, () => null, { tree: true })) : t("problem_internal");
  if (body.state === "cancelled") return t("jobCancelled");
  if (cancelling && body.state === "running") return t("jobCancelling");
  const { entriesDone, entriesTotal, bytesDone } = body;
  const files = entriesTotal && body.state === "running" ? t("filesDoneOf", { done: number(entriesDone), count: entriesTotal }) : t("filesDone", { count: entriesDone });
  return [body.state === "done" ? t("jobDone") : "", files, bytesDone ? bytes(bytesDone) : ""].filter(Boolean).join(" · ");
}
