/** What the page says by the way: to the eye in a corner, and to screen readers. */

import { make } from "./dom.js";
import { icon } from "./icons.js";
import { explained, isAbort, SignedOut } from "./problems.js";
import { t } from "./texts.js";

const SHOWN = 6000;

const polite = make("div", { class: "unseen", role: "status", id: "announcements" });
const stack = make("div", { class: "notices", role: "region", "aria-label": "" });

export function placeNotices() {
  stack.setAttribute("aria-label", t("notices"));
  document.body.append(polite, stack);
  // Beside what else Escape does. Menus and fields keep the key to themselves, so it is caught before them.
  addEventListener("keydown", ({ key }) => key === "Escape" && clearNotices(), true);
}

export function clearNotices() {
  stack.replaceChildren();
}

/** Say it to screen readers only. */
export function announce(text) {
  polite.textContent = "";
  requestAnimationFrame(() => {
    polite.textContent = text;
  });
}

/** Something went well. */
export function tell(text) {
  announce(text);
  const notice = show([text], "check", "");
  setTimeout(() => notice.remove(), SHOWN);
}

/** Something went wrong: stays until it is dismissed or another folder is opened. */
export function complain(error) {
  if (isAbort(error) || error instanceof SignedOut) return;
  show(explained(error), "warning", "alert");
}

function show(content, drawing, role) {
  const dismiss = make("button", { class: "quiet round", type: "button", "aria-label": t("dismiss"), onclick: () => notice.remove() }, icon("close"));
  const notice = make("div", { class: role ? "notice bad" : "notice", role: role || null }, icon(drawing), make("p", {}, ...content), dismiss);
  // A modal dialog makes all else inert: what happens while it is open must be said inside it.
  const place = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (stack.parentNode !== place) place.append(stack);
  stack.append(notice);
  return notice;
}

/** Bring the corner back to the page when the dialog around it has closed. */
export function rescueNotices() {
  if (stack.parentNode !== document.body) document.body.append(stack);
}
