/** The Account dialog: what the account may do, its password, its sessions and its API keys. */

import { account, changePassword, endKey, endOtherSessions, endSession, keys, makeKey, sessions } from "../api/account.js";
import { errorContent } from "../api/errors.js";
import { session } from "../api/session.js";
import { bytes, dateTime } from "../i18n/formats.js";
import { LANGUAGES, language, storeLanguage, t } from "../i18n/i18n.js";
import { copyText } from "../ui/clipboard.js";
import { bdi, fill, make, sentence } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { announce, notify, notifyError } from "../ui/notices.js";
import { tabBar } from "../ui/tabs.js";
import { button, confirm, openDialog } from "./dialogs.js";

/** @import { ApiKey, OpenSession } from "../api/account.js" */
/** @import { Child } from "../types.js" */

const DAY = 86_400_000;
const EXPIRIES = [30, 90, 365];

/** @param {string[]} rights */
const rightsText = (rights) => rights.map((right) => t(`right_${right}`)).join(" · ") || t("noRights");

/** With rights of their own in several folders, each is named. @param {string[]} rights @returns {[string, string][]} */
function rightsFacts(rights) {
  const { list } = session.mounts;
  return list.every(({ path }) => path === "/") ? [[t("yourRights"), rightsText(rights)]] : list.map((mount) => [t("rightsIn", { name: mount.path }), rightsText(mount.rights)]);
}

export async function showAccountDialog() {
  const panel = make("div", { id: "account-panel", class: "account" });
  let shown = "";
  /** @type {Record<string, (reload: () => Promise<void>) => Promise<Child[]>>} */
  const views = { account: overview, sessions: sessionList, keys: keyList };
  /** @param {string} kind */
  const show = async (kind) => {
    shown = kind;
    panel.setAttribute("aria-busy", "true");
    try {
      const content = await views[kind](() => show(kind));
      if (shown === kind) fill(panel, ...content);
    } catch (error) {
      if (shown === kind) fill(panel, make("p", { class: "error", role: "alert" }, ...errorContent(error)));
    }
    panel.removeAttribute("aria-busy");
  };
  const { bar, focus } = tabBar(t("account"), { account: t("overview"), sessions: t("sessions"), keys: t("apiKeys") }, panel, show);
  const { closed } = openDialog(t("accountTitle"), { class: "wide", body: [bar, panel] });
  focus();
  await closed;
}

/** @returns {Promise<Child[]>} */
async function overview() {
  const facts = await account();
  /** @param {string} label @param {Child} value */
  const fact = (label, value) => make("div", {}, make("dt", {}, label), make("dd", {}, value));
  const choice = make("select", { id: "account-language", onchange: () => { storeLanguage(choice.value); location.reload(); } },
    ...Object.entries(LANGUAGES).map(([code, label]) => make("option", { value: code, lang: code, selected: code === language() }, label)));
  return [
    make("dl", { class: "facts-list columns" },
      fact(t("username"), bdi(facts.username)),
      ...rightsFacts(facts.rights).map(([label, text]) => fact(label, text)),
      fact(t("largestFile"), facts.maxFileSize === null ? t("noLimit") : bytes(facts.maxFileSize)),
      fact(t("passwordSince"), dateTime(facts.passwordChangedAt))),
    passwordForm(),
    make("div", { class: "field" }, make("label", { for: "account-language" }, t("language")), choice),
  ];
}

function passwordForm() {
  const former = make("input", { id: "old-password", type: "password", autocomplete: "current-password", required: true, maxlength: "1024" });
  const password = make("input", { id: "new-password", type: "password", autocomplete: "new-password", required: true, minlength: "8", maxlength: "1024", "aria-describedby": "password-hint" });
  const problem = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "primary" }, t("changePassword"));
  const name = make("input", { type: "text", autocomplete: "username", ".value": session.username, hidden: true, readonly: true });
  const form = make("form", { method: "dialog", class: "section", "aria-labelledby": "password-title" },
    make("h3", { id: "password-title" }, t("changePassword")), name,
    make("label", { for: "old-password" }, t("oldPassword")), former,
    make("label", { for: "new-password" }, t("newPassword")), password,
    make("p", { class: "hint", id: "password-hint" }, t("newPasswordHint")), problem,
    make("footer", {}, submit));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      await changePassword(former.value, password.value);
      form.reset();
      notify(t("passwordChanged"));
    } catch (error) {
      fill(problem, ...errorContent(error));
      former.focus();
    }
    submit.disabled = false;
  });
  return form;
}

/** A browser and its system, as far as the User-Agent says; anything else as it calls itself. @param {string | null} agent */
function deviceName(agent) {
  if (!agent) return t("unknownDevice");
  const app = [["Edg", "Edge"], ["OPR", "Opera"], ["Firefox"], ["Chrome"], ["Safari"]].find(([mark]) => agent.includes(`${mark}/`));
  const system = [["Android"], ["iPhone"], ["iPad"], ["Windows"], ["Mac OS", "macOS"], ["CrOS", "ChromeOS"], ["Linux"]].find(([mark]) => agent.includes(mark));
  if (!agent.startsWith("Mozilla/") || !app) return agent.slice(0, 60);
  return system ? t("deviceOn", { app: app.at(-1) ?? "", system: system.at(-1) ?? "" }) : (app.at(-1) ?? "");
}

/** @param {() => Promise<void>} reload @returns {Promise<Child[]>} */
async function sessionList(reload) {
  const found = await sessions();
  /** @param {OpenSession} each */
  const item = (each) => {
    const name = deviceName(each.device);
    const end = () => attempt(() => endSession(each.id), t("sessionEndedNow"), reload);
    return make("li", {}, make("div", {}, bdi(name, { class: "strong" }), each.current ? make("span", { class: "badge" }, t("thisSession")) : null,
      make("p", { class: "hint" }, [each.address, each.createdAt && t("signedInAt", { time: dateTime(each.createdAt) }), each.lastUsedAt && t("lastActive", { time: dateTime(each.lastUsedAt) })].filter(Boolean).join(" · "))),
      each.current ? null : button(t("end"), { "aria-label": t("endSessionOf", { name }), onclick: end }));
  };
  const others = button(t("endOthers"), { class: "danger", onclick: () => attempt(endOtherSessions, t("othersEnded"), reload) });
  return [make("ul", { class: "credentials" }, ...found.map(item)), found.length > 1 ? make("footer", {}, others) : null];
}

/** @param {() => Promise<void>} reload @returns {Promise<Child[]>} */
async function keyList(reload) {
  const found = await keys();
  /** @param {ApiKey} key */
  const item = (key) => {
    const facts = [key.folder === "/" ? null : key.folder, rightsText(key.rights), key.addresses.join(", "), lifetime(key),
      key.lastUsedAt ? t("lastUsed", { time: dateTime(key.lastUsedAt), address: key.lastUsedFrom ?? "" }) : t("neverUsed")];
    const end = async () => {
      const body = [make("p", {}, ...sentence(t("endKeyText"), { name: bdi(key.name, { class: "strong" }) }))];
      if (await confirm(t("endKeyTitle"), { body, yes: t("endKey"), danger: true })) await attempt(() => endKey(key.id), t("keyEnded"), reload);
    };
    return make("li", {}, make("div", {}, bdi(key.name, { class: "strong" }), make("p", { class: "hint" }, facts.filter(Boolean).join(" · "))),
      button(t("endKeyButton"), { "aria-label": t("endKeyOf", { name: key.name }), onclick: end }));
  };
  const made = make("div", { class: "made-key", role: "status" });
  const list = found.length ? make("ul", { class: "credentials" }, ...found.map(item)) : make("p", { class: "hint" }, t("noKeys"));
  return [made, list, keyForm(made, reload)];
}

/** @param {ApiKey} key */
function lifetime({ expiresAt }) {
  if (!expiresAt) return null;
  return t(Date.parse(expiresAt) > Date.now() ? "expiresAt" : "expiredAt", { time: dateTime(expiresAt) });
}

/** @param {HTMLElement} made @param {() => Promise<void>} reload */
function keyForm(made, reload) {
  const name = make("input", { id: "key-name", type: "text", required: true, maxlength: "64", autocomplete: "off", placeholder: t("keyNameHint") });
  const folder = make("input", { id: "key-folder", type: "text", ".value": "/", autocomplete: "off", spellcheck: "false", dir: "auto" });
  const addresses = make("input", { id: "key-addresses", type: "text", autocomplete: "off", spellcheck: "false", dir: "ltr", placeholder: t("keyAddressesHint") });
  const expiry = make("select", { id: "key-expiry" }, ...EXPIRIES.map((days) => make("option", { value: String(days), selected: days === 90 }, t("inDays", { count: days }))), make("option", { value: "" }, t("never")));
  const rights = (session.stored?.rights ?? []).map((right) => make("input", { type: "checkbox", value: right, checked: true }));
  const problem = make("p", { class: "error", role: "alert" });
  const submit = make("button", { class: "primary" }, t("makeKey"));
  const form = make("form", { method: "dialog", class: "section", "aria-labelledby": "key-title" },
    make("h3", { id: "key-title" }, t("newKey")),
    make("label", { for: "key-name" }, t("keyName")), name,
    make("fieldset", {}, make("legend", {}, t("keyRights")), ...rights.map((box) => make("label", { class: "check" }, box, t(`right_${box.value}`)))),
    make("div", { class: "fields" },
      make("div", { class: "field" }, make("label", { for: "key-folder" }, t("folder")), folder),
      make("div", { class: "field" }, make("label", { for: "key-addresses" }, t("keyAddresses")), addresses),
      make("div", { class: "field" }, make("label", { for: "key-expiry" }, t("keyExpires")), expiry)),
    problem, make("footer", {}, submit));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.textContent = "";
    try {
      const expiresAt = expiry.value ? new Date(Date.now() + Number(expiry.value) * DAY).toISOString() : null;
      const { key } = await makeKey({ name: name.value, folder: folder.value || "/", expiresAt, rights: rights.filter((box) => box.checked).map((box) => box.value), addresses: addresses.value.split(/[\s,]+/).filter(Boolean) });
      await reload();
      showKey(document.querySelector(".made-key") ?? made, key);
    } catch (error) {
      fill(problem, ...errorContent(error));
      submit.disabled = false;
      name.focus();
    }
  });
  return form;
}

/** @param {Element} place @param {string} key */
function showKey(place, key) {
  const copy = button(t("copyText"), { class: "primary", onclick: async () => {
    await copyText(key);
    announce(t("copied"));
    fill(copy, t("copied"));
  } });
  fill(place, make("p", {}, icon("check"), t("keyMade")), make("div", { class: "copied" }, make("code", { tabindex: "0" }, key), copy));
  copy.focus();
}

/** @param {() => Promise<unknown>} work @param {string} done @param {() => Promise<void>} reload */
async function attempt(work, done, reload) {
  try {
    await work();
    announce(done);
  } catch (error) {
    notifyError(error);
  }
  await reload();
}
