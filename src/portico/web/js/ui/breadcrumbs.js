/** The path from the root to a folder. */

import { bdi, make } from "./dom.js";
import { icon } from "./icons.js";
import { toggleMenu } from "./menu.js";
import { join, link, split } from "../paths.js";
import { t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/**
 * Links to every folder of the path; with `onOpen` they are buttons that call it.
 * @param {string} path
 * @param {{onOpen?: (path: string) => void}} [options]
 */
export function breadcrumbs(path, { onOpen } = {}) {
  const folders = [{ name: t("root"), path: "/" }];
  for (const name of split(path)) folders.push({ name, path: join(folders[folders.length - 1].path, name) });
  const items = folders.map((folder, index) => {
    const isLast = index === folders.length - 1;
    const label = bdi(folder.name);
    const current = isLast ? { "aria-current": onOpen ? "true" : "page" } : {};
    const element = onOpen
      ? make("button", { type: "button", class: "crumb", onclick: () => onOpen(folder.path), ...current }, label)
      : make("a", { class: "crumb", href: link(folder.path), draggable: "false", data: { path: folder.path }, ...current }, label);
    return make("li", {}, index ? icon("next") : null, element);
  });
  const go = onOpen ?? ((target) => (location.hash = link(target)));
  const more = make("button", { type: "button", class: "crumb", "aria-label": t("middleFolders"), title: t("middleFolders"), "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => {
    const hidden = folders.filter((_, index) => items[index].hidden);
    toggleMenu(hidden.map((folder) => ({ label: visible(folder.name), icon: "folderSolid", run: () => go(folder.path) })), more);
  } }, "…");
  const ellipsis = make("li", { hidden: true }, icon("next"), more);
  const list = make("ol", {}, items[0], ellipsis, ...items.slice(1));
  new ResizeObserver(() => fit(list, items, ellipsis)).observe(list);
  return make("nav", { class: "breadcrumbs", "aria-label": t("breadcrumb") }, list);
}

/**
 * Keep the path on one line: folders from the middle move into the menu, those closest to the root first. Only then
 * is the last name truncated.
 * @param {HTMLElement} list @param {HTMLElement[]} items @param {HTMLElement} ellipsis
 */
function fit(list, items, ellipsis) {
  list.classList.add("measuring");
  ellipsis.hidden = true;
  for (const item of items) item.hidden = false;
  for (const item of items.slice(1, -1)) {
    if (list.scrollWidth <= list.clientWidth) break;
    ellipsis.hidden = false;
    item.hidden = true;
  }
  list.classList.remove("measuring");
}
