/** Opening a link: what it asks for, or why it cannot be opened. */

import { ApiError, codeOf, errorContent, Unreachable } from "../api/errors.js";
import { session } from "../api/session.js";
import { fill, make } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { LANGUAGES, language, storeLanguage, t } from "../i18n/i18n.js";

/** @import { Child, IconName } from "../types.js" */

/** @param {{password?: string, name?: string}} fields @returns {Promise<string[]>} what else is needed; if nothing is, the session is open */
async function open(fields) {
  const link = location.pathname.split("/").at(-1);
  let response;
  try {
    response = await fetch("/backend/1.0.0/share-sessions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ link, ...fields }) });
  } catch {
    throw new Unreachable();
  }
  const body = await response.json().catch(() => ({}));
  if (body.code === "more-needed") return body.needs;
  if (!response.ok) throw new ApiError(response.status, body, (name) => response.headers.get(name));
  /** @type {any} */ (session).open(body, fields.name?.trim());
  return [];
}

/** Open the link, and ask for what it needs. @param {HTMLElement} container */
export async function openLink(container) {
  try {
    const needs = await open({});
    if (needs.length) ask(container, needs);
  } catch (error) {
    showProblem(container, error, () => openLink(container));
  }
}

/** @param {HTMLElement} container @param {string[]} needs */
function ask(container, needs) {
  document.title = t("guestTitle");
  const inputs = {
    name: make("input", { id: "guest-name", name: "name", autocomplete: "name", required: true, maxlength: "100", dir: "auto" }),
    password: make("input", { id: "guest-password", type: "password", autocomplete: "off", required: true }),
  };
  const problem = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "primary wide" }, t("guestOpen"));
  const form = make("form", { class: "card", "aria-labelledby": "guest-heading" }, brand(), make("h1", { id: "guest-heading" }, t("guestHeading")),
    ...(needs.includes("name") ? [make("label", { for: "guest-name" }, t("guestName")), inputs.name] : []),
    ...(needs.includes("password") ? [make("label", { for: "guest-password" }, t("guestPassword")), inputs.password] : []),
    problem, submit);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      await open(Object.fromEntries(needs.map((need) => [need, /** @type {any} */ (inputs)[need].value])));
    } catch (error) {
      submit.disabled = false;
      fill(problem, ...errorContent(error));
      if (codeOf(error) === "wrong-password") inputs.password.select();
      else if (["not-found", "target-gone", "limit-reached"].includes(codeOf(error))) showProblem(container, error, () => openLink(container));
    }
  });
  fill(container, make("main", { class: "sign-in" }, form, footer()));
  form.querySelector("input")?.focus();
}

/** @param {HTMLElement} container @param {unknown} error @param {() => void} retry */
function showProblem(container, error, retry) {
  const code = codeOf(error);
  /** @type {Record<string, [IconName, string]>} */
  const known = { "not-found": ["search", "guestNoLink"], "target-gone": ["search", "guestGone"], "limit-reached": ["lock", "guestUsedUp"] };
  const [iconName, heading] = known[code] ?? ["warning", "guestCannotOpen"];
  document.title = t("guestTitle");
  fill(container, card([icon(iconName), make("h1", {}, t(heading)), known[code] ? make("p", {}, t("guestAskAgain")) : make("p", {}, ...errorContent(error)),
    known[code] ? null : make("button", { type: "button", class: "primary wide", onclick: retry }, t("tryAgain"))]));
}

/** A page with one card. @param {Child[]} content */
export const card = (content) => make("main", { class: "sign-in" }, make("section", { class: "card guest-card" }, brand(), ...content), footer());

export const brand = () => make("div", { class: "brand large" }, icon("logoSolid"), make("span", {}, "Portico"));

function footer() {
  const choice = make("select", { "aria-label": t("language"), onchange: () => { storeLanguage(choice.value); location.reload(); } },
    ...Object.entries(LANGUAGES).map(([code, label]) => make("option", { value: code, lang: code, selected: code === language() }, label)));
  return make("p", { class: "sign-in-footer" }, choice);
}
