/** Dragging rows onto folders of the list and of the path. The keyboard has the dialog behind M instead. */

import { isOffered, mayMoveTo, moveTo } from "./actions.js";
import { closest, make } from "../ui/dom.js";
import { join, nameOf } from "../paths.js";
import { t } from "../i18n/i18n.js";
import { rowIndex } from "./grid-row.js";

/** @import { Entry } from "../types.js" */
/** @import { FolderView } from "./folder-view.js" */
/** @import { Listing } from "./listing.js" */
/** @typedef {{path: string, label: string, element: HTMLElement}} FolderTarget */

const TYPE = "application/x-portico-entries";
const HIGHLIGHT = "drop-target";

/** The folder that something is dragged over: a row of the list, or a part of the path. @param {FolderView} view @param {Event} event @returns {FolderTarget | null} */
export function folderAt(view, event) {
  const crumb = closest(event, ".breadcrumb-bar a.crumb");
  if (crumb && view.breadcrumbBar.contains(crumb)) {
    const path = crumb.dataset.path ?? "/";
    return { path, label: path === "/" ? t("root") : nameOf(path), element: crumb };
  }
  const row = closest(event, ".row.folder");
  if (!row || !view.grid.canvas.contains(row)) return null;
  const entry = view.grid.entries[rowIndex(event)];
  return entry ? { path: join(view.path, entry.name), label: entry.name, element: row } : null;
}

/** @param {HTMLElement | null} element the one that would be dropped on */
export function highlight(element) {
  for (const other of document.querySelectorAll(`.${HIGHLIGHT}`)) if (other !== element) other.classList.remove(HIGHLIGHT);
  element?.classList.add(HIGHLIGHT);
}

/** @param {FolderView} view */
export function watchRowDrag(view) {
  /** What is dragged, and from where. @type {{listing: Listing, entries: Entry[]} | null} */
  let dragged = null;

  /** @param {DragEvent} event @returns {FolderTarget | null} */
  const targetOf = (event) => {
    if (!dragged || !event.dataTransfer?.types.includes(TYPE)) return null;
    const target = folderAt(view, event);
    return target && mayMoveTo(dragged.listing, dragged.entries, target.path) ? target : null;
  };

  view.grid.canvas.addEventListener("dragstart", (event) => {
    const index = rowIndex(event);
    const { selection } = view;
    const entry = view.grid.entries[index];
    if (!entry || !event.dataTransfer || !isOffered("move", view.path, selection.has(entry.name) ? selection.selected : [entry])) return event.preventDefault();
    if (!selection.has(entry.name)) selection.only(index);
    dragged = { listing: view.listing, entries: selection.selected };
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData(TYPE, "entries");
    const label = make("div", { class: "drag-label" }, t("moveTitle", { count: dragged.entries.length }));
    document.body.append(label);
    event.dataTransfer.setDragImage(label, -12, -12);
    setTimeout(() => label.remove());
  });
  addEventListener("dragover", (event) => {
    if (!dragged) return;
    const target = targetOf(event);
    highlight(target?.element ?? null);
    if (!target || !event.dataTransfer) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "move";
  });
  addEventListener("drop", (event) => {
    const target = targetOf(event);
    if (!target || !dragged) return;
    event.preventDefault();
    const { listing, entries } = dragged;
    end();
    moveTo(listing, entries, target.path);
  });
  const end = () => {
    dragged = null;
    highlight(null);
  };
  addEventListener("dragend", end);
}
