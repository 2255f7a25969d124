/** Choosing a folder to move or copy to. */

import { makeFolder } from "./api.js";
import { crumbs } from "./crumbs.js";
import { askName, button, openDialog } from "./dialogs.js";
import { bdi, fill, make } from "./dom.js";
import { icon } from "./icons.js";
import { Listing } from "./listing.js";
import { join, parent } from "./paths.js";
import { explained, isAbort } from "./problems.js";
import { t } from "./texts.js";

/**
 * @param {string} title
 * @param {{start: string, yes: string, forbidden: (path: string) => boolean}} options
 * @returns {Promise<string>} the folder, or nothing
 */
export async function pickFolder(title, { start, yes, forbidden }) {
  let listing = new Listing(start);
  const way = make("div", { class: "way" });
  const list = make("ul", { class: "folders" });
  const problem = make("p", { class: "problem", role: "alert" });
  const choose = button(yes, { class: "primary", onclick: () => dialog.close(listing.path) });
  const create = button(t("newFolder"), { class: "start", onclick: () => createHere() });
  const { dialog, closed } = openDialog(title, {
    class: "picker",
    body: [way, problem, list],
    actions: [create, button(t("cancel"), { onclick: () => dialog.close() }), choose],
  });

  const show = async (path) => {
    listing.close();
    listing = new Listing(path);
    problem.textContent = "";
    choose.disabled = forbidden(path);
    fill(way, crumbs(path, { onOpen: show }));
    fill(list, make("li", { class: "hint" }, t("loading")));
    await attempt(() => listing.open());
  };
  const attempt = async (load) => {
    const current = listing;
    try {
      await load();
      if (current === listing) draw();
    } catch (error) {
      if (isAbort(error) || current !== listing) return;
      fill(list);
      fill(problem, ...explained(error));
    }
  };
  const draw = () => {
    const { path } = listing;
    const folders = listing.entries.filter((entry) => entry.folder).map((entry) => join(path, entry.name)).filter((inner) => !forbidden(inner) || inner === start);
    const row = (target, label, drawing) => make("li", {}, make("button", { type: "button", onclick: () => show(target) }, icon(drawing), label));
    fill(list,
      path === "/" ? null : row(parent(path), t("upwards"), "up"),
      ...folders.map((inner) => row(inner, bdi(inner.split("/").at(-1)), "folderSolid")),
      folders.length ? null : make("li", { class: "hint" }, t("noFolders")),
      listing.complete ? null : make("li", {}, button(t("moreFolders"), { onclick: () => attempt(() => listing.more()) })));
    list.querySelector("button")?.focus();
  };
  const createHere = () => {
    let made = "";
    askName(t("newFolder"), {
      label: t("folderName"),
      yes: t("create"),
      attempt: async (name) => {
        made = join(listing.path, name);
        await makeFolder(made);
      },
    }).then(() => made && show(made));
  };

  show(start);
  const chosen = await closed;
  listing.close();
  return chosen;
}
