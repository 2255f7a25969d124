/** Keyboard shortcuts, and the dialog that lists them. */

import { openDialog } from "./dialogs/dialogs.js";
import { isTyping, make } from "./ui/dom.js";
import { t } from "./i18n/i18n.js";

const STORAGE_KEY = "portico.letters";
const isMac = navigator.platform.startsWith("Mac");

/** Single letters can interfere with dictation, so they can be turned off. */
const singleLetters = { get on() { return localStorage.getItem(STORAGE_KEY) !== "off"; }, set on(value) { localStorage.setItem(STORAGE_KEY, value ? "on" : "off"); } };

/** Groups of keys, labelled as on the keyboards of the language, with their messages. @returns {[title: string, rows: [key: string, label: string][]][]} */
const shortcuts = () => [
  ["keysMoving", [["↑ ↓", "keyMove"], [`${t("capHome")} / ${t("capEnd")}`, "keyEnds"], [`${t("capPageUp")} / ${t("capPageDown")}`, "keyPages"], [t("capEnter"), "keyOpen"], [t("capBackspace"), "keyUp"]]],
  ["keysChoosing", [[t("capSpace"), "keySelect"], [`${t("capShift")} + ↑ ↓`, "keyExtend"], [`${isMac ? "⌘" : t("capControl")} + A`, "keyAll"], [t("capEscape"), "keyClear"]]],
  ["keysDoing", [["F2", "rename"], [t("capDelete"), "delete"], ["D", "download"], [`${t("capShift")} + D`, "downloadFolder"], ["M", "move"], ["C", "copy"], ["L", "copyLink"], ["I", "details"], [`${t("capShift")} + I`, "folderDetails"], ["H", "activity"], [`${t("capShift")} + H`, "folderActivity"], ["U", "uploadFiles"], [`${t("capShift")} + U`, "uploadFolder"], [`${isMac ? "⌘" : t("capControl")} + V`, "keyPaste"], ["N", "newFolder"]]],
  ["keysElse", [["/", "filter"], ["S", "search"], ["G", "gridView"], ["R", "refresh"], ["A", "automate"], ["?", "keys"]]],
];

export function showShortcuts() {
  const groups = shortcuts().map(([title, rows]) => make("section", {}, make("h3", {}, t(title)),
    make("dl", {}, ...rows.map(([key, label]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, t(label)))))));
  const checkbox = make("input", { type: "checkbox", ".checked": singleLetters.on, onchange: () => (singleLetters.on = checkbox.checked) });
  const body = [make("div", { class: "shortcuts" }, ...groups), make("label", { class: "check" }, checkbox, t("singleKeys"))];
  openDialog(t("keys"), { class: "wide", body });
}

/** @param {(key: string) => (() => void) | undefined} handlerFor finds what a key does now; letters are in lower case */
export function watchShortcuts(handlerFor) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isTyping(event.target) || document.querySelector("dialog[open], .menu")) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const single = event.key.length === 1;
    if (single && !singleLetters.on) return;
    const name = single ? event.key.toLowerCase() : event.key;
    const run = handlerFor(event.shiftKey && single && name !== "?" && name !== "/" ? `Shift+${name}` : name);
    if (!run) return;
    event.preventDefault();
    run();
  });
}
