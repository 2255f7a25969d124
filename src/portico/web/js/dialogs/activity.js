/** The activity of a file or folder: what happened to it, when and by whom. Earlier content can be restored. */

import { activityPage } from "../api/client.js";
import { button, openDialog } from "./dialogs.js";
import { bringBack } from "./trash.js";
import { bdi, fill, make, sentence } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { notify } from "../ui/notices.js";
import { errorContent, isAbort } from "../api/errors.js";
import { session } from "../api/session.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { nameOf } from "../paths.js";
import { t } from "../i18n/i18n.js";

/** @import { ActivityEvent, Child, IconName } from "../types.js" */

/** @type {Record<ActivityEvent["action"], IconName>} */
const ICONS = { stored: "upload", replaced: "upload", made: "newFolder", deleted: "trash", moved: "move", copied: "copy", restored: "retry", removed: "trash" };

/** @param {string} path @param {() => void} onRestored called when a file or folder is back */
export async function showActivity(path, onRestored) {
  const aborter = new AbortController();
  /** @type {string | null} */
  let cursor = null;
  const list = make("ul", { class: "trashed", "aria-label": t("activity") });
  const problem = make("p", { class: "error", role: "alert" });
  const hint = make("p", { class: "hint", role: "status" }, t("loading"));
  const more = button(t("loadMore"), { hidden: true, onclick: () => load() });
  const name = path === "/" ? t("root") : nameOf(path);
  const { dialog, closed } = openDialog(sentence(t("activityOf"), { name: bdi(name) }), {
    class: "trash",
    body: [problem, hint, list, more],
    actions: [button(t("close"), { onclick: () => dialog.close() })],
  });

  /** Do it, and show its error. @param {() => Promise<void>} work */
  const attempt = async (work) => {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      hint.hidden = true;
      if (!isAbort(error)) fill(problem, ...errorContent(error));
    }
  };
  const load = () => attempt(async () => {
    const known = list.childElementCount;
    do { // a page may be empty although more follow
      const page = await activityPage(path, { cursor, signal: aborter.signal });
      cursor = page.nextCursor;
      list.append(...page.events.map(row));
    } while (cursor && list.childElementCount === known);
    more.hidden = !cursor;
    hint.hidden = list.childElementCount > 0;
    hint.textContent = t("activityNothing");
  });
  /** @param {ActivityEvent} event */
  const row = (event) => {
    const shown = event.path ?? event.source ?? "";
    const restore = event.trashId && button(t("restore"), { "aria-label": t("restoreItem", { name: nameOf(shown) }), onclick: () => restoreVersion(event.trashId ?? "", shown) });
    const when = make("time", { datetime: event.at }, dateTime(event.at));
    return make("li", {}, icon(ICONS[event.action]), make("div", {},
      bdi(shown, { class: "strong" }),
      make("span", {}, ...whatHappened(event), ...(event.size === null ? [] : [` (${bytes(event.size)})`])),
      make("span", { class: "hint" }, when, " · ", ...byWhom(event))), restore || null);
  };
  /** @param {string} id @param {string} where */
  const restoreVersion = (id, where) => attempt(async () => {
    if (!(await bringBack({ id, path: where, name: nameOf(where) }))) return;
    notify(t("restored", { count: 1 }));
    onRestored();
    cursor = null;
    fill(list);
    dialog.querySelector("h2")?.focus();
    await load();
  });

  load();
  await closed;
  aborter.abort();
}

/** @param {ActivityEvent} event @returns {Child[]} */
function whatHappened({ action, path, source }) {
  if (action !== "moved" && action !== "copied") return [t(`activity_${action}`)];
  if (path === null) return [t("activity_movedAway")];
  return source === null ? [t(`activity_${action}Here`)] : sentence(t(`activity_${action}From`), { path: bdi(source) });
}

/** @param {ActivityEvent} event @returns {Child[]} */
function byWhom({ user, byLink, guest }) {
  if (user === null) return [t("byAdministrator")];
  if (guest) return sentence(t("byNamedGuest"), { name: bdi(guest) });
  if (user === session.username) return [t(byLink ? "byYourGuest" : "byYou")];
  return sentence(t(byLink ? "byGuest" : "byUser"), { name: bdi(user) });
}
