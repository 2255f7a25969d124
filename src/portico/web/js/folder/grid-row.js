/** One row of the grid. */

import { bdi, closest, make } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { t } from "../i18n/i18n.js";

/** @typedef {ReturnType<typeof makeRow>} Row */

/** On a touch screen, a long press is for the menu. */
const MAY_DRAG = matchMedia("(hover: hover)").matches ? "true" : null;

export function makeRow() {
  const parts = {
    checkbox: make("input", { type: "checkbox", tabindex: "-1" }),
    icon: icon("file"),
    picture: make("img", { class: "thumbnail", alt: "", draggable: "false", hidden: true }),
    name: bdi(""),
    mark: make("span", { class: "mount", role: "img", "aria-label": t("separateFolder"), title: t("separateFolder"), hidden: true }, icon("storage")),
    size: make("div", { class: "cell size", role: "gridcell" }),
    modified: make("div", { class: "cell modified", role: "gridcell" }),
    menuButton: make("button", { type: "button", class: "quiet round", tabindex: "-1", "aria-haspopup": "menu" }, icon("moreSolid")),
  };
  const open = make("a", { class: "open", tabindex: "-1", draggable: "false" }, parts.name);
  const element = make("div", { class: "row", role: "row", draggable: MAY_DRAG },
    make("div", { class: "cell select", role: "gridcell" }, parts.checkbox),
    make("div", { class: "cell name", role: "gridcell" }, parts.icon, parts.picture, open, parts.mark),
    parts.size,
    parts.modified,
    make("div", { class: "cell more", role: "gridcell" }, parts.menuButton));
  return { ...parts, element, link: open };
}

/** The index of the row that an event happened in, or -1. @param {Event} event */
export const rowIndex = (event) => Number(closest(event, ".row")?.dataset.index ?? -1);
