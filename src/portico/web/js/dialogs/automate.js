/** The Automate dialog: code samples that work with the current folder. */

import { clientId, clientSecret } from "../config.js";
import { fileUrl } from "../api/client.js";
import { openDialog } from "./dialogs.js";
import { fill, make } from "../ui/dom.js";
import { tabBar } from "../ui/tabs.js";
import { makeKey } from "../api/account.js";
import { errorContent } from "../api/errors.js";
import { copyText } from "../ui/clipboard.js";
import { icon } from "../ui/icons.js";
import { announce } from "../ui/notices.js";
import { nameOf } from "../paths.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";

const COPIED_TIMEOUT = 2500;
const KEY_LIFETIME = 90 * 86_400_000;

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

/** The folder of a key is its root. */
const KEY_FOLDER = location.origin + fileUrl("/");

/** The same with a key of this folder. @type {Record<string, (key: string) => string>} */
const KEY_SAMPLES = {
  curl: (key) => `export PORTICO_KEY=${key}

# ${t("listFolder")}
curl -sS -H "Authorization: Bearer $PORTICO_KEY" ${quoted(`${KEY_FOLDER}?size=1000`)}

# ${t("uploadFile")}
curl -sS -H "Authorization: Bearer $PORTICO_KEY" -F data=@FILE ${quoted(KEY_FOLDER)}
`,
  portico: (key) => `export PORTICO_URL=${quoted(location.origin)} PORTICO_KEY=${key}

# ${t("listFolder")}
portico ls -l /

# ${t("uploadFile")}
portico put FILE /
`,
  Python: (key) => `import json, os, urllib.parse, urllib.request

# export PORTICO_KEY=${key}
FOLDER = ${literal(KEY_FOLDER)}
bearer = {"Authorization": "Bearer " + os.environ["PORTICO_KEY"]}

# ${t("listFolder")}
cursor = {}
while cursor is not None:
    url = FOLDER + "?" + urllib.parse.urlencode({"size": 1000, **cursor})
    with urllib.request.urlopen(urllib.request.Request(url, headers=bearer)) as answer:
        page = json.load(answer)
    for entry in page["content"]:
        if not entry["isCurrentFolder"]:
            print(entry["name"], entry.get("size", ""), sep="\\t")
    cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else None
`,
};

/** @param {string} path */
export async function showAutomateDialog(path) {
  const code = make("pre", { tabindex: "0", id: "automation", dir: "ltr" });
  let timer = 0;
  let kind = "";
  let key = "";
  const label = make("span", {}, t("copyText"));
  const copy = make("button", { type: "button", class: "primary", onclick: async () => {
    await copyText(code.textContent);
    label.textContent = t("copied");
    announce(t("copied"));
    clearTimeout(timer);
    timer = setTimeout(() => (label.textContent = t("copyText")), COPIED_TIMEOUT);
  } }, icon("copy"), label);
  /** @param {string} chosen */
  const show = (chosen) => {
    kind = chosen;
    code.textContent = key ? KEY_SAMPLES[kind](key) : SAMPLES[kind](path);
  };
  const { bar, focus } = tabBar(t("automate"), Object.fromEntries(Object.keys(SAMPLES).map((each) => [each, each])), code, show);
  const docs = make("a", { href: "/backend/docs", target: "_blank", rel: "noopener" }, t("restDocs"));
  const hint = make("p", { class: "hint", role: "status" }, t("automateHint"), " ", docs);
  const makeOne = make("button", { type: "button", class: "start", onclick: async () => {
    makeOne.disabled = true;
    try {
      const name = t("keyOf", { name: path === "/" ? t("root") : nameOf(path) }).slice(0, 64);
      ({ key } = await makeKey({ name, folder: path, expiresAt: new Date(Date.now() + KEY_LIFETIME).toISOString() }));
      makeOne.remove();
      fill(hint, t("keyForFolderHint"), " ", docs);
      show(kind);
      copy.focus();
    } catch (error) {
      makeOne.disabled = false;
      fill(hint, ...errorContent(error));
    }
  } }, icon("lock"), t("keyForFolder"));
  const title = path === "/" ? t("automateRootTitle") : t("automateTitle", { name: nameOf(path) });
  const { closed } = openDialog(title, { class: "wide", body: [bar, code, hint], actions: [makeOne, copy] });
  focus();
  await closed;
}
