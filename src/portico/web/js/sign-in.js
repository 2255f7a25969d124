/** The sign-in form. */

import { fill, make } from "./ui/dom.js";
import { icon } from "./ui/icons.js";
import { announce } from "./ui/notices.js";
import { ApiError, codeOf, errorText } from "./api/errors.js";
import { session } from "./api/session.js";
import { duration } from "./i18n/formats.js";
import { LANGUAGES, language, storeLanguage, t } from "./i18n/i18n.js";

/** @typedef {{until: number, reason: string}} Wait */
/**
 * @typedef {{form: HTMLFormElement, name: HTMLInputElement, password: HTMLInputElement, problem: HTMLElement,
 *   submit: HTMLButtonElement, waits: Map<string, Wait>}} Parts `waits`: by user name
 */

let timer = 0;

/** @param {HTMLElement} container @param {{notice?: string, username?: string}} [options] */
export function showSignIn(container, { notice = "", username = "" } = {}) {
  clearInterval(timer);
  document.title = t("signInTitle");
  const name = make("input", { id: "username", name: "username", autocomplete: "username", autocapitalize: "none", spellcheck: "false", required: true, maxlength: "256", ".value": username });
  const password = make("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true });
  const problem = make("p", { class: "error", role: "alert", id: "sign-in-error" });
  const submit = make("button", { class: "primary wide" }, t("signIn"));
  const form = make("form", { class: "card", method: "post", action: "/", "aria-labelledby": "sign-in-title" },
    make("div", { class: "brand large" }, icon("logoSolid"), make("span", {}, "Portico")),
    make("h1", { id: "sign-in-title" }, t("signInHeading")),
    notice ? make("p", { class: "hint", role: "status" }, notice) : null,
    make("label", { for: "username" }, t("username")), name,
    make("label", { for: "password" }, t("password")), password,
    problem, submit);
  /** @type {Parts} */
  const parts = { form, name, password, problem, submit, waits: new Map() };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(parts);
  });
  name.addEventListener("input", () => showWait(parts));
  fill(container, make("main", { class: "sign-in" }, form, footer()));
  (username ? password : name).focus();
}

function footer() {
  const choice = make("select", { "aria-label": t("language"), onchange: () => { storeLanguage(choice.value); location.reload(); } },
    ...Object.entries(LANGUAGES).map(([code, label]) => make("option", { value: code, lang: code, selected: code === language() }, label)));
  return make("p", { class: "sign-in-footer" }, choice, make("a", { href: "/backend/docs" }, t("restDocs")));
}

/** @param {Parts} parts */
async function attempt(parts) {
  const { form, name, password, problem, submit } = parts;
  const username = name.value.trim();
  problem.textContent = "";
  submit.disabled = true;
  form.setAttribute("aria-busy", "true");
  try {
    await session.signIn(username, password.value);
    return;
  } catch (error) {
    submit.disabled = false;
    if (codeOf(error) === "invalid_grant") {
      problem.textContent = t("wrongPassword");
      password.select();
      password.focus();
    } else if (error instanceof ApiError && error.retryAfter) {
      const throttled = error.status === 429;
      const until = Date.now() + error.retryAfter * 1000;
      parts.waits.set(throttled ? keyOf(username) : ALL_USERS, { until, reason: t(throttled ? "throttled" : "busy") });
      showWait(parts);
    } else problem.textContent = errorText(error);
  }
  form.removeAttribute("aria-busy");
}

/** User names are case-insensitive. @param {string} name */
const keyOf = (name) => name.trim().toLowerCase();
const ALL_USERS = "";

/**
 * Count down until the user in the field may try again. Screen readers hear it once. The wait applies to one user
 * name; with another one the button works.
 * @param {Parts} parts
 */
function showWait({ name, problem, submit, waits }) {
  clearInterval(timer);
  const key = waits.has(ALL_USERS) ? ALL_USERS : keyOf(name.value);
  const wait = waits.get(key);
  submit.disabled = Boolean(wait);
  if (!wait) {
    if (problem.querySelector("[role=timer]")) problem.textContent = "";
    return;
  }
  const left = make("span", { role: "timer" });
  fill(problem, `${wait.reason} `, left);
  const tick = () => {
    const seconds = Math.ceil((wait.until - Date.now()) / 1000);
    left.textContent = seconds > 0 ? t("tryAgainIn", { time: duration(seconds) }) : "";
    if (seconds > 0 && problem.isConnected) return;
    clearInterval(timer);
    waits.delete(key);
    if (!problem.isConnected) return;
    submit.disabled = false;
    problem.textContent = t("tryAgainNow");
    announce(t("tryAgainNow"));
  };
  timer = setInterval(tick, 1000);
  tick();
}
