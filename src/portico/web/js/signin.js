/** The sign-in form. */

import { fill, make } from "./dom.js";
import { icon } from "./icons.js";
import { announce } from "./notices.js";
import { Problem, words } from "./problems.js";
import { session } from "./session.js";
import { span } from "./formats.js";
import { LANGUAGES, keepLanguage, language, t } from "./texts.js";

let timer = 0;

/** @param {HTMLElement} place @param {{notice?: string, username?: string}} [before] what led here */
export function showSignIn(place, { notice = "", username = "" } = {}) {
  clearInterval(timer);
  document.title = t("signInTitle");
  const name = make("input", { id: "username", name: "username", autocomplete: "username", autocapitalize: "none", spellcheck: "false", required: true, maxlength: "256", ".value": username });
  const password = make("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true });
  const problem = make("p", { class: "problem", role: "alert", id: "sign-in-problem" });
  const submit = make("button", { class: "primary wide" }, t("signIn"));
  const form = make("form", { class: "card", method: "post", action: "/", "aria-labelledby": "sign-in-title" },
    make("div", { class: "brand large" }, icon("logoSolid"), make("span", {}, "Portico")),
    make("h1", { id: "sign-in-title" }, t("signInHeading")),
    notice ? make("p", { class: "hint", role: "status" }, notice) : null,
    make("label", { for: "username" }, t("username")), name,
    make("label", { for: "password" }, t("password")), password,
    problem, submit);
  const parts = { form, name, password, problem, submit, waits: new Map() };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(parts);
  });
  name.addEventListener("input", () => showWait(parts));
  fill(place, make("main", { class: "sign-in" }, form, footer()));
  (username ? password : name).focus();
}

function footer() {
  const choice = make("select", { "aria-label": t("language"), onchange: () => { keepLanguage(choice.value); location.reload(); } },
    ...Object.entries(LANGUAGES).map(([code, label]) => make("option", { value: code, lang: code, selected: code === language() }, label)));
  return make("p", { class: "below" }, choice, make("a", { href: "/backend/docs" }, t("restDocs")));
}

async function attempt(parts) {
  const { form, name, password, problem, submit } = parts;
  const asked = name.value.trim();
  problem.textContent = "";
  submit.disabled = true;
  form.setAttribute("aria-busy", "true");
  try {
    await session.signIn(asked, password.value);
    return;
  } catch (error) {
    submit.disabled = false;
    if (error.code === "invalid_grant") {
      problem.textContent = t("wrongPassword");
      password.select();
      password.focus();
    } else if (error instanceof Problem && error.retryAfter) {
      const throttled = error.status === 429;
      const until = Date.now() + error.retryAfter * 1000;
      parts.waits.set(throttled ? keyOf(asked) : EVERYBODY, { until, why: t(throttled ? "throttled" : "busy") });
      showWait(parts);
    } else problem.textContent = words(error);
  }
  form.removeAttribute("aria-busy");
}

/** Names are compared without case. */
const keyOf = (name) => name.trim().toLowerCase();
const EVERYBODY = "";

/**
 * Count the wait of the name in the field down before the eyes; to screen readers it is said once. A wait is of one
 * name: for another one the button works.
 */
function showWait({ name, problem, submit, waits }) {
  clearInterval(timer);
  const key = waits.has(EVERYBODY) ? EVERYBODY : keyOf(name.value);
  const wait = waits.get(key);
  submit.disabled = Boolean(wait);
  if (!wait) {
    if (problem.querySelector("[role=timer]")) problem.textContent = "";
    return;
  }
  const left = make("span", { role: "timer" });
  fill(problem, `${wait.why} `, left);
  const tick = () => {
    const seconds = Math.ceil((wait.until - Date.now()) / 1000);
    left.textContent = seconds > 0 ? t("tryAgainIn", { time: span(seconds) }) : "";
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
