/** What can be done here, and with what is chosen. */

import { isOffered } from "./actions.js";
import { fill, make } from "./dom.js";
import { icon } from "./icons.js";
import { toggleMenu } from "./menu.js";
import { t } from "./texts.js";

/** The actions on entries, in the order in which they are offered. */
export const ENTRY_ACTIONS = [
  { name: "download", icon: "download", key: "D" },
  { name: "rename", icon: "rename", key: "F2" },
  { name: "move", icon: "move", key: "M" },
  { name: "copy", icon: "copy", key: "C" },
  { name: "remove", label: "delete", icon: "trash", cap: "capDelete", danger: true },
];

/** The menu of what can be done with these entries. */
export function entryMenu(entries, run) {
  const items = ENTRY_ACTIONS.filter(({ name }) => isOffered(name, entries));
  return items.map(({ name, label, icon: drawing, key, cap, danger }) => ({ label: t(label ?? name), icon: drawing, key: cap ? t(cap) : key, danger, run: () => run(name) }));
}

export class Toolbar {
  /** @param {{run: (action: string) => void, onFilter: (text: string) => void}} handlers */
  constructor({ run, onFilter }) {
    this.run = run;
    this.general = make("div", { class: "actions", role: "toolbar", "aria-label": t("folderActions") });
    this.chosen = make("div", { class: "actions chosen", role: "toolbar", "aria-label": t("selectionActions"), hidden: true });
    this.field = make("input", { type: "search", id: "filter", placeholder: t("filterHint"), "aria-label": t("filter"), autocomplete: "off", spellcheck: "false", oninput: () => onFilter(this.field.value) });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.field.value) {
        event.preventDefault();
        this.field.value = "";
        onFilter("");
      }
    });
    this.search = make("label", { class: "filter", for: "filter" }, icon("search"), this.field);
    this.again = make("button", { type: "button", class: "quiet round", title: `${t("refresh")} (R)`, "aria-label": t("refresh"), onclick: () => run("refresh") }, icon("retry"));
    this.element = make("div", { class: "toolbar" }, this.general, this.chosen, make("div", { class: "find" }, this.search, this.again));
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  /** Icons alone where the words of the language do not fit beside the filter: a second line would move the list. */
  #fit() {
    this.element.classList.remove("tight");
    this.element.classList.toggle("tight", this.element.scrollWidth > this.element.clientWidth);
  }

  /** The folder has changed: offer what this user may do here. */
  reset({ mayList }) {
    const upload = make("button", { type: "button", class: "primary", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => toggleMenu(this.#uploadMenu(), upload) }, icon("upload"), make("span", {}, t("upload")), icon("down"));
    fill(this.general,
      isOffered("upload") ? upload : null,
      isOffered("newFolder") ? this.#button("newFolder", "newFolder") : null,
      this.#button("automate", "terminal"));
    this.search.hidden = this.again.hidden = !mayList;
    this.field.value = "";
    this.update([]);
  }

  #uploadMenu() {
    return [
      { label: t("uploadFiles"), icon: "file", key: "U", run: () => this.run("uploadFiles") },
      { label: t("uploadFolder"), icon: "folderSolid", key: `${t("capShift")} + U`, run: () => this.run("uploadFolder") },
    ];
  }

  set busy(busy) {
    this.again.classList.toggle("busy", busy);
  }

  /** @param {import("./listing.js").Entry[]} entries what is chosen now */
  update(entries) {
    const any = entries.length > 0;
    const held = this.chosen.contains(document.activeElement);
    this.general.hidden = any;
    this.chosen.hidden = !any;
    if (!any) {
      if (held) this.run("focusList");
      this.#fit();
      return;
    }
    const shape = entryMenu(entries, this.run).map((item) => item.label).join();
    if (shape !== this.shape || !this.chosen.childElementCount) {
      this.shape = shape;
      const offered = ENTRY_ACTIONS.filter(({ name }) => isOffered(name, entries));
      fill(this.chosen,
        make("button", { type: "button", class: "quiet round", "aria-label": t("clearSelection"), title: t("clearSelection"), onclick: () => this.run("clear") }, icon("close")),
        make("strong", { class: "count" }),
        ...offered.map(({ name, label, icon: drawing, danger }) => this.#button(name, drawing, label, danger ? "quiet danger" : "quiet")));
    }
    this.chosen.querySelector(".count").textContent = t("selected", { count: entries.length });
    this.#fit();
  }

  #button(name, drawing, label = name, kind = "") {
    return make("button", { type: "button", class: kind || null, title: t(label), "aria-label": t(label), onclick: () => this.run(name), data: { action: name } }, icon(drawing), make("span", {}, t(label)));
  }
}
