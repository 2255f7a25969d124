/** Questions, on the browser's own dialog: it keeps the focus in, closes with Escape and gives the focus back. */

import { bdi, fill, make, sentence } from "./dom.js";
import { icon } from "./icons.js";
import { rescueNotices } from "./notices.js";
import { extension, isName } from "./paths.js";
import { explained, InvalidName, isAbort } from "./problems.js";
import { t } from "./texts.js";

let numbered = 0;

/**
 * @param {string} title
 * @param {{class?: string, body: Node[], actions?: HTMLElement[], back?: HTMLElement}} parts
 * @returns {{dialog: HTMLDialogElement, closed: Promise<string>}} `closed` gives what `dialog.close` was given
 */
export function openDialog(title, { class: kind = "", body, actions = [], back = null }) {
  numbered += 1;
  const heading = make("h2", { id: `dialog-${numbered}`, tabindex: "-1" }, ...(Array.isArray(title) ? title : [title]));
  const close = make("button", { class: "quiet round", type: "button", "aria-label": t("close"), onclick: () => dialog.close() }, icon("close"));
  const dialog = make(
    "dialog",
    { class: kind, "aria-labelledby": heading.id },
    make("header", {}, heading, close),
    make("div", { class: "body" }, ...body),
    actions.length ? make("footer", {}, ...actions) : null,
  );
  const opener = back ?? document.activeElement;
  document.body.append(dialog);
  const closed = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      rescueNotices();
      dialog.remove();
      if (opener?.isConnected) opener.focus();
      resolve(dialog.returnValue);
    });
  });
  dialog.showModal();
  if (!dialog.querySelector("[autofocus]")) heading.focus();
  return { dialog, closed };
}

export const button = (label, options = {}) => make("button", { type: "button", ...options }, label);

/** Yes or no. What cannot be undone takes more than Enter. @returns {Promise<boolean>} */
export async function confirm(title, { body, yes, danger = false }) {
  const actions = [
    button(t("cancel"), { onclick: () => dialog.close(), autofocus: danger }),
    button(yes, { class: danger ? "danger" : "primary", onclick: () => dialog.close("yes"), autofocus: !danger }),
  ];
  const { dialog, closed } = openDialog(title, { class: "small", body, actions });
  return (await closed) === "yes";
}

/**
 * A name, asked until `attempt` succeeds with it: what fails is said below the field.
 * @param {string} title
 * @param {{label: string, value?: string, yes: string, attempt: (name: string) => Promise<void>}} question
 */
export async function askName(title, { label, value = "", yes, attempt }) {
  const input = make("input", { id: "asked-name", type: "text", ".value": value, required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off", dir: "auto", maxlength: "255", "aria-describedby": "asked-problem" });
  const problem = make("p", { class: "problem", id: "asked-problem", role: "alert" });
  const submit = make("button", { class: "primary" }, yes);
  const form = make("form", { method: "dialog" }, make("label", { for: "asked-name" }, label), input, problem,
    make("footer", {}, button(t("cancel"), { onclick: () => dialog.close() }), submit));
  const { dialog, closed } = openDialog(title, { class: "small", body: [form] });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const name = input.value.trim();
      // One name: with a slash it would be a path, and name something else than the row that is shown for it.
      if (name !== value && !isName(name)) throw new InvalidName();
      await attempt(name);
      dialog.close();
    } catch (error) {
      if (!isAbort(error)) fill(problem, ...explained(error));
      submit.disabled = false;
      input.focus();
    }
  });
  input.focus();
  input.setSelectionRange(0, value.length - extension(value).length);
  await closed;
}

/**
 * What to do about a name that is taken.
 * @returns {Promise<{choice: "replace" | "rename" | "skip", forAll: boolean}>}
 */
export async function askConflict(name, { mayReplace, others }) {
  const forAll = make("input", { type: "checkbox" });
  const answer = (choice, label, hint) =>
    make("button", { type: "button", class: "choice", data: { choice }, autofocus: choice === "rename", onclick: () => dialog.close(choice) }, make("strong", {}, label), make("span", {}, hint));
  const body = [
    make("p", {}, ...sentence(t("conflictText"), { name: bdi(name, { class: "strong" }) })),
    make("div", { class: "choices" },
      mayReplace ? answer("replace", t("replace"), t("replaceHint")) : null,
      answer("rename", t("keepBoth"), t("keepBothHint")),
      answer("skip", t("skip"), t("skipHint"))),
    others ? make("label", { class: "check" }, forAll, t("forAllConflicts")) : null,
  ].filter(Boolean);
  const { dialog, closed } = openDialog(t("conflictTitle"), { class: "small", body });
  const choice = (await closed) || "skip";
  return { choice, forAll: forAll.checked };
}

/** Several things failed: one list, with each sentence. @param {{name: string, error: Error}[]} failures */
export async function showFailures(title, failures) {
  const items = failures.map(({ name, error }) => make("li", {}, bdi(name, { class: "strong" }), make("span", { class: "problem" }, ...explained(error))));
  const { dialog, closed } = openDialog(title, { class: "small", body: [fill(make("ul", { class: "failures" }), ...items)], actions: [button(t("close"), { class: "primary", onclick: () => dialog.close() })] });
  await closed;
}
