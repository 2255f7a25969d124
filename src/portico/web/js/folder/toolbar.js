/** The toolbar: actions for the folder, or for the selection, and the filter. */

import { isOffered, isOfferedIn } from "./actions.js";
import { fill, make } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { session } from "../api/session.js";
import { toggleMenu } from "../ui/menu.js";
import { viewMode } from "./view-mode.js";
import { t } from "../i18n/i18n.js";

/** @import { Command, Entry, EntryAction, IconName, MenuItem } from "../types.js" */

/**
 * The actions for entries, in display order. `label` and `keyLabel` are message keys.
 * @type {{name: EntryAction, label: string, icon: IconName, key?: string, keyLabel?: string, danger?: boolean, menuOnly?: boolean}[]}
 */
const ENTRY_ACTIONS = [
  { name: "download", label: "download", icon: "download", key: "D" },
  { name: "copyLink", label: "copyLink", icon: "link", key: "L", menuOnly: true },
  { name: "share", label: "share", icon: "share", menuOnly: true },
  { name: "details", label: "details", icon: "info", key: "I", menuOnly: true },
  { name: "activity", label: "activity", icon: "history", key: "H", menuOnly: true },
  { name: "rename", label: "rename", icon: "rename", key: "F2" },
  { name: "move", label: "move", icon: "move", key: "M" },
  { name: "copy", label: "copy", icon: "copy", key: "C" },
  { name: "remove", label: "delete", icon: "trash", keyLabel: "capDelete", danger: true },
];

/** The menu for these entries. @param {string} folder @param {Entry[]} entries @param {{run: (action: EntryAction) => void, open: (entry: Entry) => void}} handlers @returns {MenuItem[]} */
export function entryMenu(folder, entries, { run, open }) {
  const [entry] = entries;
  const mayOpen = entries.length === 1 && (entry.folder || session.mayIn(folder, "download"));
  const offered = ENTRY_ACTIONS.filter(({ name }) => isOffered(name, folder, entries));
  return [
    ...(mayOpen ? [openItem(entry, open)] : []),
    ...offered.map(({ name, label, icon: iconName, key, keyLabel, danger }) => ({ label: t(label), icon: iconName, key: keyLabel ? t(keyLabel) : key, danger, run: () => run(name) })),
  ];
}

/** @param {Entry} entry @param {(entry: Entry) => void} open @returns {MenuItem} */
const openItem = (entry, open) => ({ label: t(entry.folder ? "open" : "preview"), icon: entry.folder ? "folderSolid" : "open", key: "↵", run: () => open(entry) });

export class Toolbar {
  /** @param {{run: (command: Command) => void, onFilter: (text: string) => void}} handlers */
  constructor({ run, onFilter }) {
    this.run = run;
    this.folder = "/";
    this.folderActions = make("div", { class: "actions", role: "toolbar", "aria-label": t("folderActions") });
    this.selectionActions = make("div", { class: "actions selection-actions", role: "toolbar", "aria-label": t("selectionActions"), hidden: true });
    this.count = make("strong", { class: "count" });
    this.offered = "";
    this.field = make("input", { type: "search", id: "filter", placeholder: t("filterHint"), "aria-label": t("filter"), autocomplete: "off", spellcheck: "false", oninput: () => onFilter(this.field.value) });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.field.value) {
        event.preventDefault();
        this.field.value = "";
        onFilter("");
      } else if (event.key === "Enter" && this.field.value.trim()) {
        event.preventDefault();
        run("search");
      }
    });
    this.filter = make("label", { class: "filter", for: "filter" }, icon("search"), this.field);
    this.search = make("button", { type: "button", class: "quiet round", title: `${t("search")} (S)`, "aria-label": t("search"), onclick: () => run("search") }, icon("searchBelow"));
    /** Of the one selected entry, or else of the folder. */
    this.details = make("button", { type: "button", class: "quiet round", title: t("details"), "aria-label": t("details"), onclick: () => run(this.single ? "details" : "folderDetails") }, icon("info"));
    this.single = false;
    this.refresh = make("button", { type: "button", class: "quiet round", title: `${t("refresh")} (R)`, "aria-label": t("refresh"), onclick: () => run("refresh") }, icon("retry"));
    this.view = make("button", { type: "button", class: "quiet round", title: `${t("gridView")} (G)`, "aria-label": t("gridView"), "aria-pressed": String(viewMode.isGrid), onclick: () => run("gridView") }, icon("tiles"));
    viewMode.addEventListener("change", () => this.view.setAttribute("aria-pressed", String(viewMode.isGrid)));
    this.element = make("div", { class: "toolbar" }, this.folderActions, this.selectionActions, make("div", { class: "find" }, this.filter, this.search, this.view, this.details, this.refresh));
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  /** Show only icons where the labels do not fit beside the filter: a second line would move the list. */
  #fit() {
    this.element.classList.remove("compact");
    this.element.classList.toggle("compact", this.element.scrollWidth > this.element.clientWidth);
  }

  /** Start over in a new folder. @param {string} folder */
  reset(folder) {
    this.folder = folder;
    const mayList = session.mayIn(folder, "list");
    const upload = make("button", { type: "button", class: "primary", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => toggleMenu(this.#uploadMenu(), upload) }, icon("upload"), make("span", {}, t("upload")), icon("down"));
    fill(this.folderActions,
      isOfferedIn("upload", folder) ? upload : null,
      isOfferedIn("newFolder", folder) ? this.#button("newFolder", "newFolder") : null,
      isOfferedIn("downloadFolder", folder) ? this.#button("downloadFolder", "download") : null,
      isOfferedIn("automate", folder) ? this.#button("automate", "terminal") : null);
    this.filter.hidden = this.search.hidden = this.view.hidden = this.details.hidden = this.refresh.hidden = !mayList;
    this.field.value = "";
    this.update([]);
  }

  /** @returns {MenuItem[]} */
  #uploadMenu() {
    return [
      { label: t("uploadFiles"), icon: "file", key: "U", run: () => this.run("uploadFiles") },
      { label: t("uploadFolder"), icon: "folderSolid", key: `${t("capShift")} + U`, run: () => this.run("uploadFolder") },
    ];
  }

  /** @param {boolean} busy */
  set busy(busy) {
    this.refresh.classList.toggle("busy", busy);
  }

  /** @param {Entry[]} entries the current selection */
  update(entries) {
    const any = entries.length > 0;
    this.single = entries.length === 1;
    const hadFocus = this.selectionActions.contains(document.activeElement);
    this.folderActions.hidden = any;
    this.selectionActions.hidden = !any;
    if (!any) {
      if (hadFocus) this.run("focusList");
      this.#fit();
      return;
    }
    const actions = ENTRY_ACTIONS.filter(({ name, menuOnly }) => !menuOnly && isOffered(name, this.folder, entries));
    const offered = actions.map(({ name }) => name).join();
    if (offered !== this.offered || !this.selectionActions.childElementCount) {
      this.offered = offered;
      fill(this.selectionActions,
        make("button", { type: "button", class: "quiet round", "aria-label": t("clearSelection"), title: t("clearSelection"), onclick: () => this.run("clear") }, icon("close")),
        this.count,
        ...actions.map(({ name, label, icon: iconName, danger }) => this.#button(name, iconName, label, danger ? "quiet danger" : "quiet")));
    }
    this.count.textContent = t("selected", { count: entries.length });
    this.#fit();
  }

  /** @param {Command} command @param {IconName} iconName @param {string} [label] a message key */
  #button(command, iconName, label = command, className = "") {
    return make("button", { type: "button", class: className || null, title: t(label), "aria-label": t(label), onclick: () => this.run(command), data: { action: command } }, icon(iconName), make("span", {}, t(label)));
  }
}
