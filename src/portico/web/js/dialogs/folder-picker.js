/** A dialog to pick the target folder of a move or copy. */

import { makeFolder } from "../api/client.js";
import { breadcrumbs } from "../ui/breadcrumbs.js";
import { askName, button, openDialog } from "./dialogs.js";
import { bdi, fill, make } from "../ui/dom.js";
import { icon } from "../ui/icons.js";
import { Listing } from "../folder/listing.js";
import { join, nameOf, parent } from "../paths.js";
import { errorContent, isAbort } from "../api/errors.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";

/**
 * @param {string} title
 * @param {{start: string, yes: string, isInside: (path: string) => boolean, isTarget: (path: string) => boolean}} options `isInside`: not even shown; `isTarget`: can be chosen
 * @returns {Promise<string>} the path of the folder, or empty
 */
export async function pickFolder(title, { start, yes, isInside, isTarget }) {
  let listing = new Listing(start);
  const breadcrumbBar = make("div", { class: "breadcrumb-bar" });
  const list = make("ul", { class: "folders" });
  const problem = make("p", { class: "error", role: "alert" });
  const choose = button(yes, { class: "primary", onclick: () => dialog.close(listing.path) });
  const create = button(t("newFolder"), { class: "start", onclick: () => createHere() });
  const { dialog, closed } = openDialog(title, {
    class: "picker",
    body: [breadcrumbBar, problem, list],
    actions: [create, button(t("cancel"), { onclick: () => dialog.close() }), choose],
  });

  /** @param {string} path */
  const show = async (path) => {
    listing.close();
    listing = new Listing(path);
    problem.textContent = "";
    choose.disabled = !isTarget(path);
    create.disabled = !session.mayIn(path, "upload");
    fill(breadcrumbBar, breadcrumbs(path, { onOpen: show }));
    fill(list, make("li", { class: "hint" }, t("loading")));
    await attempt(() => listing.open());
  };
  /** @param {() => Promise<void>} load */
  const attempt = async (load) => {
    const current = listing;
    try {
      await load();
      if (current === listing) draw();
    } catch (error) {
      if (isAbort(error) || current !== listing) return;
      fill(list);
      fill(problem, ...errorContent(error));
    }
  };
  const draw = () => {
    const { path } = listing;
    const folders = listing.entries.filter((entry) => entry.folder).map((entry) => join(path, entry.name)).filter((inner) => !isInside(inner));
    /** @param {string} target @param {Node | string} label @param {import("../types.js").IconName} iconName */
    const row = (target, label, iconName) => make("li", {}, make("button", { type: "button", onclick: () => show(target) }, icon(iconName), label));
    fill(list,
      path === "/" ? null : row(parent(path), t("upwards"), "up"),
      ...folders.map((inner) => row(inner, bdi(nameOf(inner)), "folderSolid")),
      folders.length ? null : make("li", { class: "hint" }, t("noFolders")),
      listing.complete ? null : make("li", {}, button(t("moreFolders"), { onclick: () => attempt(() => listing.more()) })));
    list.querySelector("button")?.focus();
  };
  const createHere = () => {
    let created = "";
    askName(t("newFolder"), {
      label: t("folderName"),
      yes: t("create"),
      attempt: async (name) => {
        const path = join(listing.path, name);
        await makeFolder(path);
        created = path;
      },
    }).then(() => {
      if (created) show(created);
    });
  };

  show(start);
  const chosen = await closed;
  listing.close();
  return chosen;
}
