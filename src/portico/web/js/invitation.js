/** The page of an invitation: a user sets a password. The token is in the address's fragment, which is never sent. */

import { acceptInvitation, invitation } from "./api/account.js";
import { ApiError, errorContent } from "./api/errors.js";
import { session } from "./api/session.js";
import { bdi, fill, make, sentence } from "./ui/dom.js";
import { icon } from "./ui/icons.js";
import { t } from "./i18n/i18n.js";

export const isInvitation = () => location.pathname === "/invite";

/** @param {HTMLElement} container */
export async function showInvitation(container) {
  document.title = t("inviteTitle");
  const token = location.hash.slice(1);
  const brand = make("div", { class: "brand large" }, icon("logoSolid"), make("span", {}, "Portico"));
  const card = make("div", { class: "card" }, brand);
  fill(container, make("main", { class: "sign-in" }, card));
  /** @param {unknown} error */
  const refused = (error) => {
    const gone = error instanceof ApiError && error.code === "not-found";
    fill(card, brand, make("h1", {}, t("inviteHeading")), make("p", { class: "error", role: "alert" }, ...(gone ? [t("inviteGone")] : errorContent(error))));
  };
  let username;
  try {
    ({ username } = await invitation(token));
  } catch (error) {
    refused(error);
    return;
  }
  const password = make("input", { id: "new-password", type: "password", autocomplete: "new-password", required: true, minlength: "8", maxlength: "1024", "aria-describedby": "password-hint" });
  const problem = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "primary wide" }, t("setPassword"));
  // Password managers save it for this name.
  const name = make("input", { type: "text", autocomplete: "username", ".value": username, hidden: true, readonly: true });
  const form = make("form", { class: "card", method: "post", action: "/", "aria-labelledby": "invite-title" }, brand,
    make("h1", { id: "invite-title" }, t("inviteHeading")),
    make("p", { class: "hint" }, ...sentence(t("inviteText"), { name: bdi(username, { class: "strong" }) })), name,
    make("label", { for: "new-password" }, t("newPassword")), password,
    make("p", { class: "hint", id: "password-hint" }, t("newPasswordHint")), problem, submit);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      await acceptInvitation(token, password.value);
      history.replaceState(null, "", "/");
      await session.signIn(username, password.value);
    } catch (error) {
      submit.disabled = false;
      if (error instanceof ApiError && error.code === "not-found") refused(error);
      else fill(problem, ...errorContent(error));
      password.focus();
    }
  });
  fill(container, make("main", { class: "sign-in" }, form));
  password.focus();
}
