/** Dialogs, on the native element: it traps the focus, closes with Escape and restores the focus. */

import { bdi, fill, make, sentence } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { restoreNotices } from "../ui/notices.js";
import { extension, isName } from "../paths.js";
import { errorContent, InvalidName, isAbort } from "../api/errors.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** @import { Child, ConflictChoice, ElementOptions } from "../types.js" */

let count = 0;

/**
 * @param {Child | Child[]} title
 * @param {{class?: string, body: Child[], actions?: Child[]}} parts
 * @returns {{dialog: HTMLDialogElement, closed: Promise<string>}} `closed` resolves to the value passed to `dialog.close`
 */
export function openDialog(title, { class: className = "", body, actions = [] }) {
  count += 1;
  const heading = make("h2", { id: `dialog-${count}`, tabindex: "-1" }, ...(Array.isArray(title) ? title : [title]));
  const close = make("button", { class: "quiet round", type: "button", "aria-label": t("close"), onclick: () => dialog.close() }, icon("close"));
  const dialog = make(
    "dialog",
    { class: className, "aria-labelledby": heading.id },
    make("header", {}, heading, close),
    make("div", { class: "body" }, ...body),
    actions.length ? make("footer", {}, ...actions) : null,
  );
  const opener = document.activeElement;
  document.body.append(dialog);
  /** @type {Promise<string>} */
  const closed = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      restoreNotices();
      dialog.remove();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
      resolve(dialog.returnValue);
    });
  });
  dialog.showModal();
  if (!dialog.querySelector("[autofocus]")) heading.focus();
  return { dialog, closed };
}

/** @param {string} label @param {ElementOptions} [options] */
export const button = (label, options = {}) => make("button", { type: "button", ...options }, label);

/**
 * Ask yes or no. With `danger`, Cancel has the focus, so Enter alone does not confirm.
 * @param {string} title
 * @param {{body: Child[], yes: string, danger?: boolean}} options
 * @returns {Promise<boolean>}
 */
export async function confirm(title, { body, yes, danger = false }) {
  const actions = [
    button(t("cancel"), { onclick: () => dialog.close(), autofocus: danger }),
    button(yes, { class: danger ? "danger" : "primary", onclick: () => dialog.close("yes"), autofocus: !danger }),
  ];
  const { dialog, closed } = openDialog(title, { class: "small", body, actions });
  return (await closed) === "yes";
}

/**
 * Ask for a name until `attempt` succeeds with it. Errors are shown below the field.
 * @param {string} title
 * @param {{label: string, value?: string, yes: string, attempt: (name: string) => Promise<void>}} options
 */
export async function askName(title, { label, value = "", yes, attempt }) {
  const input = make("input", { id: "name-field", type: "text", ".value": value, required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off", dir: "auto", maxlength: "255", "aria-describedby": "name-error" });
  const problem = make("p", { class: "error", id: "name-error", role: "alert" });
  const submit = make("button", { class: "primary" }, yes);
  const form = make("form", { method: "dialog" }, make("label", { for: "name-field" }, label), input, visible(value) === value ? null : make("p", { class: "hint" }, bdi(value)), problem,
    make("footer", {}, button(t("cancel"), { onclick: () => dialog.close() }), submit));
  const { dialog, closed } = openDialog(title, { class: "small", body: [form] });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const name = input.value.trim();
      // With a slash it would be a path, and refer to something else than the row that is shown for it.
      if (name !== value && !isName(name)) throw new InvalidName();
      await attempt(name);
      dialog.close();
    } catch (error) {
      if (!isAbort(error)) fill(problem, ...errorContent(error));
      submit.disabled = false;
      input.focus();
    }
  });
  input.focus();
  input.setSelectionRange(0, value.length - extension(value).length);
  await closed;
}

/**
 * Ask what to do about a name conflict.
 * @param {string} name
 * @param {{mayReplace: boolean, others: boolean}} options `others`: more conflicts may follow
 * @returns {Promise<{choice: ConflictChoice, forAll: boolean}>}
 */
export async function askConflict(name, { mayReplace, others }) {
  const forAll = make("input", { type: "checkbox" });
  /** @param {ConflictChoice} choice @param {string} label @param {string} hint */
  const answer = (choice, label, hint) =>
    make("button", { type: "button", class: "choice", data: { choice }, autofocus: choice === "rename", onclick: () => dialog.close(choice) }, make("strong", {}, label), make("span", {}, hint));
  const body = [
    make("p", {}, ...sentence(t("conflictText"), { name: bdi(name, { class: "strong" }) })),
    make("div", { class: "choices" },
      mayReplace ? answer("replace", t("replace"), t("replaceHint")) : null,
      answer("rename", t("keepBoth"), t("keepBothHint")),
      answer("skip", t("skip"), t("skipHint"))),
    others ? make("label", { class: "check" }, forAll, t("forAllConflicts")) : null,
  ];
  const { dialog, closed } = openDialog(t("conflictTitle"), { class: "small", body });
  const choice = /** @type {ConflictChoice} */ ((await closed) || "skip");
  return { choice, forAll: forAll.checked };
}

/** List what failed, each with its error. @param {string} title @param {{name: string, error: unknown}[]} failures */
export async function showFailures(title, failures) {
  const items = failures.map(({ name, error }) => make("li", {}, bdi(name, { class: "strong" }), make("span", { class: "error" }, ...errorContent(error))));
  const { dialog, closed } = openDialog(title, { class: "small", body: [fill(make("ul", { class: "failures" }), ...items)], actions: [button(t("close"), { class: "primary", onclick: () => dialog.close() })] });
  await closed;
}
