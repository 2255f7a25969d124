/** The way from the root to a folder. */

import { bdi, make } from "./dom.js";
import { icon } from "./icons.js";
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
  return make("nav", { class: "crumbs", "aria-label": t("breadcrumb") }, make("ol", {}, ...items));
}
