/** Notices in a corner of the page, and announcements to screen readers. */

import { make } from "./dom.js";
import { icon } from "./icons.js";
import { errorContent, isAbort, SignedOut } from "../api/errors.js";
import { t } from "../i18n/i18n.js";

/** @import { Child } from "../types.js" */
/** @import { IconName } from "./icons.js" */

const TIMEOUT = 6000;
/** With something to press in it. */
const ACTION_TIMEOUT = 20000;

const announcements = make("div", { class: "visually-hidden", role: "status", id: "announcements" });
const stack = make("div", { class: "notices", role: "region", "aria-label": "" });

export function mountNotices() {
  stack.setAttribute("aria-label", t("notices"));
  document.body.append(announcements, stack);
  // Escape also does other things. Menus and fields stop the event, so it is captured before them.
  addEventListener("keydown", ({ key }) => key === "Escape" && clearNotices(), true);
}

export function clearNotices() {
  stack.replaceChildren();
}

/** Announce to screen readers only. @param {string} text */
export function announce(text) {
  announcements.textContent = "";
  requestAnimationFrame(() => {
    announcements.textContent = text;
  });
}

/** Report a success for a few seconds, with something to do about it. @param {string} text @param {{label: string, run: () => void}} [action] */
export function notify(text, action) {
  announce(action ? `${text} · ${action.label}` : text);
  const press = action && make("button", { class: "quiet", type: "button", onclick: () => { notice.remove(); action.run(); } }, action.label);
  const notice = show(press ? [text, " ", press] : [text], "check", "");
  setTimeout(() => notice.remove(), action ? ACTION_TIMEOUT : TIMEOUT);
}

/** Report an error until it is dismissed or another folder is opened. @param {unknown} error */
export function notifyError(error) {
  if (isAbort(error) || error instanceof SignedOut) return;
  show(errorContent(error), "warning", "alert");
}

/** @param {Child[]} content @param {IconName} iconName @param {string} role */
function show(content, iconName, role) {
  const dismiss = make("button", { class: "quiet round", type: "button", "aria-label": t("dismiss"), onclick: () => notice.remove() }, icon("close"));
  const notice = make("div", { class: role ? "notice bad" : "notice", role: role || null }, icon(iconName), make("p", {}, ...content), dismiss);
  // A modal dialog makes everything else inert, so notices go inside it.
  const container = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (stack.parentNode !== container) container.append(stack);
  stack.append(notice);
  return notice;
}

/** Move the notices back to the page before the dialog around them is removed. */
export function restoreNotices() {
  if (stack.parentNode !== document.body) document.body.append(stack);
}
