/** The Automate dialog: code samples that work with the current folder. */

import { clientId, clientSecret } from "../config.js";
import { fileUrl } from "../api/client.js";
import { openDialog } from "./dialogs.js";
import { arrowStep, make } from "../ui/dom.js";
import { copyText } from "../ui/clipboard.js";
import { icon } from "../ui/icons.js";
import { announce } from "../ui/notices.js";
import { nameOf } from "../paths.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";

const COPIED_TIMEOUT = 2500;

/** Quote for a POSIX shell. @param {string} text */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** A Python string literal: Python understands the escapes of JSON. @param {string} text */
const literal = (text) => JSON.stringify(text);

/** @param {string} path */
function curl(path) {
  const url = location.origin + fileUrl(path);
  return `# ${t("askPassword")}
printf "Password: "; stty -echo; read -r PASSWORD; stty echo; echo
TOKEN=$(curl -sS -f ${quoted(`${location.origin}/backend/login`)} \\
  -u ${quoted(`${clientId}:${clientSecret}`)} \\
  -d grant_type=password --data-urlencode ${quoted(`username=${session.username}`)} \\
  --data-urlencode "password=$PASSWORD" \\
  | sed -n 's/.*"access_token" *: *"\\([^"]*\\)".*/\\1/p')

# ${t("listFolder")}
curl -sS -H "Authorization: Bearer $TOKEN" ${quoted(`${url}?size=1000`)}

# ${t("uploadFile")}
curl -sS -H "Authorization: Bearer $TOKEN" -F data=@FILE ${quoted(url)}
`;
}

/** @param {string} path */
function portico(path) {
  return `portico login ${quoted(location.origin)} --user ${quoted(session.username)}

# ${t("listFolder")}
portico ls -l ${quoted(path)}

# ${t("uploadFile")}
portico put FILE ${quoted(path.endsWith("/") ? path : `${path}/`)}
`;
}

/** @param {string} path */
function python(path) {
  return `import base64, getpass, json, urllib.parse, urllib.request

GATEWAY = ${literal(location.origin)}
FOLDER = GATEWAY + ${literal(fileUrl(path))}
CLIENT = base64.b64encode(${literal(`${clientId}:${clientSecret}`)}.encode()).decode()


def ask(url, headers, data=None):
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        return json.load(answer)


# ${t("askPassword")}
form = {"grant_type": "password", "username": ${literal(session.username)}, "password": getpass.getpass()}
answer = ask(GATEWAY + "/backend/login", {"Authorization": "Basic " + CLIENT}, urllib.parse.urlencode(form).encode())
bearer = {"Authorization": "Bearer " + answer["access_token"]}

# ${t("listFolder")}
cursor = {}
while cursor is not None:
    page = ask(FOLDER + "?" + urllib.parse.urlencode({"size": 1000, **cursor}), bearer)
    for entry in page["content"]:
        if not entry["isCurrentFolder"]:
            print(entry["name"], entry.get("size", ""), sep="\\t")
    cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else None
`;
}

/** @type {Record<string, (path: string) => string>} */
const SAMPLES = { curl, portico, Python: python };

/** @param {string} path */
export async function showAutomateDialog(path) {
  const code = make("pre", { tabindex: "0", id: "automation", role: "tabpanel", dir: "ltr" });
  let timer = 0;
  const label = make("span", {}, t("copyText"));
  const copy = make("button", { type: "button", class: "primary", onclick: async () => {
    await copyText(code.textContent);
    label.textContent = t("copied");
    announce(t("copied"));
    clearTimeout(timer);
    timer = setTimeout(() => (label.textContent = t("copyText")), COPIED_TIMEOUT);
  } }, icon("copy"), label);
  const tabs = Object.keys(SAMPLES).map((kind) => make("button", { type: "button", role: "tab", "aria-controls": "automation", onclick: () => choose(kind), data: { kind } }, kind));
  /** @param {string} kind */
  const choose = (kind) => {
    for (const tab of tabs) {
      const selected = tab.dataset.kind === kind;
      tab.setAttribute("aria-selected", String(selected));
      tab.tabIndex = selected ? 0 : -1;
    }
    code.textContent = SAMPLES[kind](path);
    code.setAttribute("aria-label", kind);
  };
  const bar = make("div", { class: "tabs", role: "tablist", "aria-label": t("automate") }, ...tabs);
  bar.addEventListener("keydown", (event) => {
    const step = arrowStep(event);
    if (!step) return;
    const current = tabs.findIndex((tab) => tab === document.activeElement);
    const tab = tabs[(current + step + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  });
  choose("curl");
  const hint = make("p", { class: "hint" }, t("automateHint"), " ", make("a", { href: "/backend/docs", target: "_blank", rel: "noopener" }, t("restDocs")));
  const title = path === "/" ? t("automateRootTitle") : t("automateTitle", { name: nameOf(path) });
  const { closed } = openDialog(title, { class: "wide", body: [bar, code, hint], actions: [copy] });
  tabs[0].focus();
  await closed;
}
