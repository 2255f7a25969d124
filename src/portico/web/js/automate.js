/** What the page does in this folder, as lines for a terminal or a program. */

import { clientId, clientSecret } from "./config.js";
import { address } from "./api.js";
import { openDialog } from "./dialogs.js";
import { make } from "./dom.js";
import { icon } from "./icons.js";
import { announce } from "./notices.js";
import { nameOf } from "./paths.js";
import { session } from "./session.js";
import { t } from "./texts.js";

/** For a POSIX shell. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** For Python, whose strings read JSON's escapes as JSON does. */
const literal = (text) => JSON.stringify(text);

function curl(path) {
  const url = quoted(location.origin + address(path));
  return `# ${t("askPassword")}
printf "Password: "; stty -echo; read -r PASSWORD; stty echo; echo
TOKEN=$(curl -sS ${quoted(`${location.origin}/backend/login`)} \\
  -u ${quoted(`${clientId}:${clientSecret}`)} \\
  -d grant_type=password --data-urlencode ${quoted(`username=${session.username}`)} \\
  --data-urlencode "password=$PASSWORD" \\
  | sed -n 's/.*"access_token" *: *"\\([^"]*\\)".*/\\1/p')

# ${t("listFolder")}
curl -sS -H "Authorization: Bearer $TOKEN" ${url}?size=1000

# ${t("uploadFile")}
curl -sS -H "Authorization: Bearer $TOKEN" -F data=@FILE ${url}
`;
}

function portico(path) {
  return `portico login ${quoted(location.origin)} --user ${quoted(session.username)}

# ${t("listFolder")}
portico ls -l ${quoted(path)}

# ${t("uploadFile")}
portico put FILE ${quoted(path.endsWith("/") ? path : `${path}/`)}
`;
}

function python(path) {
  return `import base64, getpass, json, urllib.parse, urllib.request

GATEWAY = ${literal(location.origin)}
FOLDER = GATEWAY + ${literal(address(path))}
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

const KINDS = { curl, portico, Python: python };

/** @param {string} path */
export async function showAutomation(path) {
  const code = make("pre", { tabindex: "0", id: "automation", role: "tabpanel", dir: "ltr" });
  let copied = 0;
  const copy = make("button", { type: "button", class: "primary", onclick: async () => {
    await copyText(code);
    copy.lastChild.textContent = t("copied");
    announce(t("copied"));
    clearTimeout(copied);
    copied = setTimeout(() => (copy.lastChild.textContent = t("copyText")), 2500);
  } }, icon("copy"), make("span", {}, t("copyText")));
  const tabs = Object.keys(KINDS).map((kind) => make("button", { type: "button", role: "tab", "aria-controls": "automation", onclick: () => choose(kind), data: { kind } }, kind));
  const choose = (kind) => {
    for (const tab of tabs) {
      const here = tab.dataset.kind === kind;
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
    }
    code.textContent = KINDS[kind](path);
    code.setAttribute("aria-label", kind);
  };
  const bar = make("div", { class: "tabs", role: "tablist", "aria-label": t("automate") }, ...tabs);
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const tab = tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length];
    tab.focus();
    tab.click();
  });
  choose("curl");
  const hint = make("p", { class: "hint" }, t("automateHint"), " ", make("a", { href: "/backend/docs", target: "_blank", rel: "noopener" }, t("restDocs")));
  const title = t("automateTitle", { name: path === "/" ? t("root") : nameOf(path) });
  const { dialog, closed } = openDialog(title, { class: "wide", body: [bar, code, hint], actions: [copy] });
  dialog.querySelector("[role=tab]").focus();
  await closed;
}

async function copyText(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
  } catch {
    // Without TLS the clipboard is closed to scripts; what is selected can still be copied.
    getSelection().selectAllChildren(element);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
}
