/** The dialog that shares a file or a folder. */

import { addLink } from "../api/shares.js";
import { button, openDialog } from "./dialogs.js";
import { showLinks } from "./links.js";
import { madeLink } from "./made-link.js";
import { bdi, fill, make } from "../ui/dom.js";
import { announce } from "../ui/notices.js";
import { errorContent } from "../api/errors.js";
import { nameOf } from "../paths.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";

/** @import { Child } from "../types.js" */

const DAY = 86_400_000;

/** What each kind of link needs of the owner's rights, beside that to share. */
const KINDS = { download: ["list", "download"], request: ["upload"], both: ["list", "download", "upload"] };

/** The kinds of links that can be made here. @param {string} path @param {boolean} isFolder */
export function linkKinds(path, isFolder) {
  const kinds = Object.entries(KINDS).filter(([kind, rights]) => (isFolder || kind === "download") && session.mayIn(path, "share", ...rights));
  return kinds.map(([kind]) => kind);
}

/** @param {string} path @param {boolean} isFolder */
export async function showShareDialog(path, isFolder) {
  const kind = select("share-kind", linkKinds(path, isFolder).map((name) => [name, t(`share_${name}`)]));
  const title = make("input", { id: "share-title", maxlength: "200", autocomplete: "off", dir: "auto" });
  const note = make("textarea", { id: "share-note", rows: "2", maxlength: "4000", dir: "auto" });
  const password = make("input", { id: "share-password", type: "password", autocomplete: "new-password", minlength: "8" });
  const end = select("share-end", [["7", t("lastsDays", { count: 7 })], ["1", t("lastsDays", { count: 1 })], ["30", t("lastsDays", { count: 30 })], ["", t("lastsForever")]]);
  const most = make("input", { id: "share-most", type: "number", min: "1", inputmode: "numeric" });
  const askName = make("input", { type: "checkbox", ".checked": true });
  const ownFolder = make("input", { type: "checkbox" });
  const problem = make("p", { class: "error", role: "alert" });
  const mostLabel = make("label", { for: "share-most" });
  const forRequests = make("div", { class: "checks" }, make("label", { class: "check" }, askName, t("shareAskName")), make("label", { class: "check" }, ownFolder, t("shareOwnFolder")));
  const follow = () => {
    forRequests.hidden = kind.value !== "request";
    mostLabel.textContent = t(kind.value === "download" ? "shareMaxDownloads" : "shareMaxUploads");
  };
  kind.addEventListener("change", follow);
  follow();
  const submit = make("button", { class: "primary" }, t("shareMake"));
  const form = make("form", { method: "dialog", class: "share-form" },
    ...field("share-kind", t("shareKind"), kind), ...field("share-title", t("shareTitle"), title), ...field("share-note", t("shareNote"), note),
    ...field("share-password", t("sharePassword"), password), make("div", { class: "pair" }, make("div", {}, ...field("share-end", t("shareEnd"), end)), make("div", {}, mostLabel, most)),
    forRequests, problem, make("footer", {}, button(t("links"), { class: "start quiet", onclick: () => { dialog.close(); showLinks(); } }), button(t("cancel"), { onclick: () => dialog.close() }), submit));
  const { dialog, closed } = openDialog([t("shareHeading"), " ", bdi(path === "/" ? t("root") : nameOf(path))], { class: "share", body: [form] });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      const limit = most.value ? { [kind.value === "download" ? "maxDownloads" : "maxUploads"]: Number(most.value) } : {};
      const link = await addLink({
        path, kind: kind.value, title: title.value.trim(), note: note.value.trim(), ...limit,
        ...(password.value ? { password: password.value } : {}),
        // Without an end, the gateway's own longest life counts.
        ...(end.value ? { expiresAt: new Date(Date.now() + Number(end.value) * DAY).toISOString() } : {}),
        askName: kind.value === "request" && askName.checked, folderPerSender: kind.value === "request" && ownFolder.checked,
      });
      fill(/** @type {HTMLElement} */ (dialog.querySelector(".body")), ...madeLink(link), make("footer", {}, button(t("close"), { class: "primary", onclick: () => dialog.close() })));
      dialog.querySelector("input")?.select();
      announce(t("shareMade"));
    } catch (error) {
      submit.disabled = false;
      fill(problem, ...errorContent(error));
    }
  });
  await closed;
}

/** @param {string} id @param {string} label @param {HTMLElement} input @returns {Child[]} */
const field = (id, label, input) => [make("label", { for: id }, label), input];

/** @param {string} id @param {string[][]} options */
const select = (id, options) => make("select", { id }, ...options.map(([value, label]) => make("option", { value }, label)));
