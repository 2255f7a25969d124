/** "Undo everything since…": the reader's own changes since a time, first as a plan in words. */

import { planRewind, rewind } from "../api/changes.js";
import { button, openDialog } from "./dialogs.js";
import { bdi, fill, make, sentence } from "../ui/dom.js";
import { notify, notifyError } from "../ui/notices.js";
import { codeOf, errorContent, isAbort } from "../api/errors.js";
import { nameOf } from "../paths.js";
import { t } from "../i18n/i18n.js";

/** @import { Child, LeftAlone, RewindBody } from "../types.js" */

const HOUR = 3_600_000;
const MINUTE = 60_000;
/** How much of what is left alone is listed. */
const MAX_LISTED = 100;
/** What there is to do, in the order in which it is shown. */
const STEPS = /** @type {const} */ (["restore", "remove", "move", "make"]);

/** @param {string} folder that is shown @param {() => void} onDone called when something may have changed */
export async function showRewind(folder, onDone) {
  const since = make("input", { id: "rewind-since", type: "datetime-local", required: true, ".value": local(Date.now() - HOUR), max: local(Date.now()) });
  const onlyHere = make("input", { type: "checkbox" });
  const problem = make("p", { class: "error", role: "alert" });
  const plan = make("div", { class: "plan", role: "status" });
  const look = make("button", { class: "primary" }, t("rewindShow"));
  const cancel = button(t("cancel"), { onclick: () => dialog.close() });
  const start = button(t("rewindStart"), { class: "danger", hidden: true, onclick: () => begin() });
  const form = make("form", { method: "dialog", class: "rewind" },
    make("p", {}, t("rewindHint")),
    make("label", { for: "rewind-since" }, t("rewindSince")), since,
    folder === "/" ? null : make("label", { class: "check" }, onlyHere, make("span", {}, ...sentence(t("rewindOnlyIn"), { name: bdi(nameOf(folder)) }))),
    problem, plan,
    make("footer", {}, cancel, look, start));
  const aborter = new AbortController();
  const { dialog, closed } = openDialog(t("rewind"), { class: "small", body: [form] });
  const wanted = () => ({ since: new Date(since.value).toISOString(), path: onlyHere.checked ? folder : "/" });

  const reset = () => {
    fill(plan);
    start.hidden = true;
    look.hidden = false;
  };
  since.addEventListener("input", reset);
  onlyHere.addEventListener("change", reset);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    look.disabled = true;
    problem.textContent = "";
    fill(plan, make("p", { class: "hint" }, t("loading")));
    try {
      const found = await planRewind(wanted(), aborter.signal);
      const any = STEPS.some((step) => found.steps[step]) || found.steps.tidy > 0;
      fill(plan, ...(any ? [make("p", {}, t("rewindPlan")), todo(found)] : [make("p", {}, t("rewindNothing"))]), ...leftAlone(found));
      start.hidden = !any;
      look.hidden = any;
      if (any) cancel.focus(); // Enter alone does not confirm
    } catch (error) {
      reset();
      if (!isAbort(error)) fill(problem, ...(codeOf(error) === "invalid-request" ? [t("rewindTooMuch")] : errorContent(error)));
    }
    look.disabled = false;
  });
  /** From now on the panel of long changes shows it. */
  const begin = async () => {
    const changes = wanted();
    dialog.close();
    try {
      const done = await rewind(changes);
      if (done.leftAloneCount) showResult(done);
      else notify(t("rewindDone"));
    } catch (error) {
      notifyError(error);
    } finally {
      onDone();
    }
  };

  since.focus();
  await closed;
  aborter.abort();
}

/** @param {RewindBody} done */
function showResult(done) {
  const { dialog } = openDialog(t("rewindDone"), { class: "small", body: [make("div", { class: "plan" }, ...leftAlone(done))], actions: [button(t("close"), { class: "primary", onclick: () => dialog.close() })] });
}

/** @param {RewindBody} found */
function todo({ steps }) {
  const remove = steps.remove + steps.tidy;
  const counts = { ...steps, remove };
  return make("ul", {}, ...STEPS.filter((step) => counts[step]).map((step) => make("li", {}, t(`rewind_${step}`, { count: counts[step] }))));
}

/** @param {RewindBody} found @returns {Child[]} */
function leftAlone({ leftAlone: items, leftAloneCount }) {
  if (!leftAloneCount) return [];
  const rest = leftAloneCount - Math.min(items.length, MAX_LISTED);
  return [
    make("p", {}, t("rewindLeftAlone", { count: leftAloneCount })),
    make("ul", { class: "failures" },
      ...items.slice(0, MAX_LISTED).map((item) => make("li", {}, item.path === null ? null : bdi(item.path, { class: "strong" }), make("span", {}, ...reason(item)))),
      rest > 0 ? make("li", { class: "hint" }, t("andMore", { count: rest })) : null),
  ];
}

/** @param {LeftAlone} item @returns {Child[]} */
function reason({ why, user }) {
  if (why === "conflict" && user) return sentence(t("left_conflict"), { name: bdi(user) });
  return [t(why === "conflict" ? "left_conflict_other" : `left_${why.replaceAll("-", "_")}`)];
}

/** As a field for local times has it. @param {number} moment */
const local = (moment) => new Date(moment - new Date(moment).getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
