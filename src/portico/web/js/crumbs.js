/** The way from the root to a folder. */

import { bdi, make } from "./dom.js";
import { icon } from "./icons.js";
import { toggleMenu } from "./menu.js";
import { join, link, split } from "./paths.js";
import { t } from "./texts.js";

/**
 * Links to every folder on the way; with `onOpen` they are buttons that call it.
 * @param {string} path
 * @param {{onOpen?: (path: string) => void}} [options]
 */
export function crumbs(path, { onOpen } = {}) {
  const steps = split(path).reduce((above, name) => [...above, { name, path: join(above.at(-1).path, name) }], [{ name: t("root"), path: "/" }]);
  const items = steps.map((step, index) => {
    const here = index === steps.length - 1;
    const label = bdi(step.name);
    const current = here ? { "aria-current": onOpen ? "true" : "page" } : {};
    const element = onOpen
      ? make("button", { type: "button", class: "crumb", onclick: () => onOpen(step.path), ...current }, label)
      : make("a", { class: "crumb", href: link(step.path), ...current }, label);
    return make("li", {}, index ? icon("next") : null, element);
  });
  const go = onOpen ?? ((target) => (location.hash = link(target)));
  const more = make("button", { type: "button", class: "crumb", "aria-label": t("middleFolders"), title: t("middleFolders"), "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => {
    const away = steps.filter((_, index) => items[index].hidden);
    toggleMenu(away.map((step) => ({ label: step.name, icon: "folderSolid", run: () => go(step.path) })), more);
  } }, "…");
  const gap = make("li", { hidden: true }, icon("next"), more);
  const list = make("ol", {}, items[0], gap, ...items.slice(1));
  new ResizeObserver(() => fit(list, items, gap)).observe(list);
  return make("nav", { class: "crumbs", "aria-label": t("breadcrumb") }, list);
}

/** On one line: as many folders as it takes go from the middle into the menu, those next to the root first. Only then is the last one cut. */
function fit(list, items, gap) {
  list.classList.add("fitting");
  gap.hidden = true;
  for (const item of items) item.hidden = false;
  for (const item of items.slice(1, -1)) {
    if (list.scrollWidth <= list.clientWidth) break;
    gap.hidden = false;
    item.hidden = true;
  }
  list.classList.remove("fitting");
}
