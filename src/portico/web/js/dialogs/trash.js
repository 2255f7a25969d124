/** The trash: what was deleted or replaced, and can be brought back. */

import * as api from "../api/client.js";
import { emptyTrash, restore } from "../api/changes.js";
import { askConflict, button, confirm, openDialog } from "./dialogs.js";
import { bdi, fill, make } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { notify } from "../ui/notices.js";
import { codeOf, errorContent, isAbort } from "../api/errors.js";
import { session } from "../api/session.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { t } from "../i18n/i18n.js";

/** @import { OnConflict, TrashedItem } from "../types.js" */

/** @param {() => void} onRestored called when files are back */
export async function showTrash(onRestored) {
  const aborter = new AbortController();
  /** @type {string | null} */
  let cursor = null;
  const list = make("ul", { class: "trashed", "aria-label": t("trashList") });
  const problem = make("p", { class: "error", role: "alert" });
  const hint = make("p", { class: "hint" }, t("loading"));
  const more = button(t("loadMore"), { hidden: true, onclick: () => load() });
  const empty = button(t("emptyTrash"), { class: "danger start", hidden: true, onclick: () => clear() });
  const { dialog, closed } = openDialog(t("trash"), {
    class: "trash",
    body: [problem, hint, list, more],
    actions: [empty, button(t("close"), { onclick: () => dialog.close() })],
  });

  const update = () => {
    const nothing = !list.childElementCount && !cursor;
    hint.hidden = !nothing;
    hint.textContent = t("trashNothing");
    more.hidden = !cursor;
    empty.hidden = nothing || !session.may("delete");
  };
  /** Do it, and show its error. @param {() => Promise<void>} work */
  const attempt = async (work) => {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      if (!isAbort(error)) fill(problem, ...errorContent(error));
    }
  };
  const load = () => attempt(async () => {
    const page = await api.trashPage({ cursor, signal: aborter.signal });
    cursor = page.nextCursor;
    list.append(...page.content.map(row));
    update();
  });
  /** @param {TrashedItem} item */
  const row = (item) => {
    const when = t(item.reason === "replaced" ? "replacedOn" : "deletedOn", { date: dateTime(item.deletedAt) });
    const facts = [when, item.size === null ? "" : bytes(item.size), t("keptUntil", { date: dateTime(item.expiresAt) })].filter(Boolean).join(" · ");
    const restore = button(t("restore"), { "aria-label": t("restoreItem", { name: item.name }), onclick: () => takeOut(item, element) });
    const element = make("li", {}, icon(item.isFolder ? "folderSolid" : "file"), make("div", {}, bdi(item.path, { class: "strong" }), make("span", { class: "hint" }, facts)), session.mayIn(item.path, "upload", "overwrite") ? restore : null);
    return element;
  };
  /** @param {TrashedItem} item @param {HTMLElement} element */
  const takeOut = (item, element) => attempt(async () => {
    if (!(await bringBack(item))) return;
    const next = element.nextElementSibling ?? element.previousElementSibling;
    element.remove();
    update();
    (next?.querySelector("button") ?? dialog.querySelector("h2"))?.focus();
    notify(t("restored", { count: 1 }));
    onRestored();
  });
  const clear = () => attempt(async () => {
    if (!(await confirm(t("emptyTrash"), { body: [make("p", {}, t("emptyTrashHint"))], yes: t("emptyTrash"), danger: true }))) return;
    await emptyTrash();
    cursor = null;
    fill(list);
    update();
    notify(t("trashEmptied"));
  });

  load();
  await closed;
  aborter.abort();
}

/** Whether it is back; if its name is taken, the user decides. @param {Pick<TrashedItem, "id" | "name" | "path">} item */
export async function bringBack(item) {
  try {
    await restore(item.id);
  } catch (error) {
    if (codeOf(error) !== "already-exists") throw error;
    const { choice } = await askConflict(item.name, { mayReplace: session.mayIn(item.path, "replace"), others: false });
    if (choice === "skip") return false;
    await restore(item.id, /** @type {OnConflict} */ (choice));
  }
  return true;
}
