/** Keys that work without a mouse, and the table that shows them. */

import { openDialog } from "./dialogs.js";
import { isTyping, make } from "./dom.js";
import { t } from "./texts.js";

const KEPT = "portico.letters";
const isMac = navigator.platform.startsWith("Mac");

/** Single letters can get in the way of dictation; whoever wants can do without. */
const letters = { get on() { return localStorage.getItem(KEPT) !== "off"; }, set on(value) { localStorage.setItem(KEPT, value ? "on" : "off"); } };

/** By what is written on the keys where the language is spoken. */
const table = () => [
  ["keysMoving", [["↑ ↓", "keyMove"], [`${t("capHome")} / ${t("capEnd")}`, "keyEnds"], [`${t("capPageUp")} / ${t("capPageDown")}`, "keyPages"], [t("capEnter"), "keyOpen"], [t("capBackspace"), "keyUp"]]],
  ["keysChoosing", [[t("capSpace"), "keySelect"], [`${t("capShift")} + ↑ ↓`, "keyExtend"], [`${isMac ? "⌘" : t("capControl")} + A`, "keyAll"], [t("capEscape"), "keyClear"]]],
  ["keysDoing", [["F2", "rename"], [t("capDelete"), "delete"], ["D", "download"], ["M", "move"], ["C", "copy"], ["U", "uploadFiles"], [`${t("capShift")} + U`, "uploadFolder"], ["N", "newFolder"]]],
  ["keysElse", [["/", "filter"], ["R", "refresh"], ["A", "automate"], ["?", "keys"]]],
];

export function showKeys() {
  const groups = table().map(([title, rows]) => make("section", {}, make("h3", {}, t(title)),
    make("dl", {}, ...rows.map(([key, label]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, t(label)))))));
  const choice = make("input", { type: "checkbox", ".checked": letters.on, onchange: () => (letters.on = choice.checked) });
  const body = [make("div", { class: "keys" }, ...groups), make("label", { class: "check" }, choice, t("singleKeys"))];
  openDialog(t("keys"), { class: "wide", body });
}

/** @param {(key: string) => (() => void) | undefined} find what a key does now; single characters come in lower case */
export function watchKeys(find) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isTyping(event.target) || document.querySelector("dialog[open], .menu")) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const single = event.key.length === 1;
    if (single && !letters.on) return;
    const name = single ? event.key.toLowerCase() : event.key;
    const run = find(event.shiftKey && single && name !== "?" && name !== "/" ? `Shift+${name}` : name);
    if (!run) return;
    event.preventDefault();
    run();
  });
}
