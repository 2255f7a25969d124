/** From an address of the page to what it names: a folder, a search below it, or a file, which is shown in its folder. */

import { stat } from "../api/client.js";
import { extension, nameOf, parent } from "../paths.js";
import { session } from "../api/session.js";
import { toEntry } from "./listing.js";

/** @import { ScrollPosition } from "../types.js" */
/** @import { FolderView } from "./folder-view.js" */

/** @param {FolderView} view @param {string} path @param {ScrollPosition | null} position @param {{reload?: boolean, search?: Record<string, string> | null}} [options] */
export async function showAddress(view, path, position, { reload = false, search = null } = {}) {
  view.filePreview.close();
  if (!search || path !== view.path) view.searchView.hide();
  view.requested = path;
  if (!reload && view.listing.opened && !view.listing.closed) {
    if (path === view.path) {
      if (search) view.searchView.show(path, search);
      return;
    }
    const entry = parent(path) === view.path ? view.listing.byName.get(nameOf(path)) : undefined;
    if (entry && !entry.folder) {
      view.filePreview.show(entry);
      return;
    }
  }
  if (mayBeFile(view, path)) {
    view.element.setAttribute("aria-busy", "true");
    const isFile = await stat(path).then(({ type }) => type === "REGULAR", () => false);
    if (view.requested !== path) return;
    if (isFile) {
      await openFile(view, path);
      return;
    }
  }
  await view.open(path, position);
  if (search && view.requested === path && view.listing.opened) view.searchView.show(path, search);
}

/** Open the folder of a file, and its preview. @param {FolderView} view @param {string} path */
export async function openFile(view, path) {
  const name = nameOf(path);
  await view.open(parent(path), { row: name, find: true });
  if (view.requested !== path || !view.listing.opened) return;
  const entry = view.listing.byName.get(name) ?? await stat(path).then(toEntry, () => undefined);
  if (entry && view.requested === path) view.filePreview.show(entry);
}

/**
 * Whether to ask first. Without that, the refusal to list a file tells it, too, but browsers report that in the console.
 * @param {FolderView} view @param {string} path
 */
function mayBeFile(view, path) {
  if (!extension(nameOf(path)) || !session.mayIn(path, "list")) return false;
  const isKnownFolder = view.path.startsWith(`${path}/`) || (parent(path) === view.path && view.listing.byName.get(nameOf(path))?.folder);
  return !isKnownFolder;
}
