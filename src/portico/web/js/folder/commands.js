/** What buttons, menus and shortcuts start in a folder. */

import * as actions from "./actions.js";
import { showAutomateDialog } from "../dialogs/automate.js";
import { showActivity } from "../dialogs/activity.js";
import { showDetails } from "../dialogs/details.js";
import { showShareDialog } from "../dialogs/share.js";
import { download, downloadFolder } from "./downloads.js";
import { join, parent } from "../paths.js";
import { session } from "../api/session.js";
import { viewMode } from "./view-mode.js";

/** @import { Command } from "../types.js" */
/** @import { FolderView } from "./folder-view.js" */

/** Run a command, if it is offered here and now. @param {FolderView} view @param {Command} name */
export async function runCommand(view, name) {
  const { listing, selection } = view;
  const entries = selection.selectedOrActive;
  if (actions.isEntryAction(name)) {
    if (!actions.isOffered(name, listing.path, entries)) return;
    if (name === "download") await download(listing.path, entries);
    else if (name === "details") await detailsOf(view, join(listing.path, entries[0].name));
    else if (name === "activity") await activityOf(view, join(listing.path, entries[0].name));
    else if (name === "share") await showShareDialog(join(listing.path, entries[0].name), entries[0].folder);
    else if (name === "rename") view.goTo(await actions.rename(listing, entries[0]));
    else await actions[name](listing, entries);
  } else if (name === "newFolder") {
    if (actions.isOfferedIn(name, view.path)) view.goTo(await actions.newFolder(listing));
  } else if (name === "downloadFolder") {
    if (actions.isOfferedIn(name, view.path)) await downloadFolder(view.path);
  } else if (name === "folderDetails") {
    if (session.mayIn(view.path, "list")) await detailsOf(view, view.path);
  } else if (name === "folderActivity") {
    if (session.mayIn(view.path, "list") && !session.isGuest) await activityOf(view, view.path);
  } else if (name === "uploadFiles" || name === "uploadFolder") {
    if (actions.isOfferedIn("upload", view.path)) view.onUpload(name === "uploadFiles" ? "files" : "folder");
  } else if (name === "automate") {
    if (actions.isOfferedIn(name, view.path)) await showAutomateDialog(view.path);
  } else if (name === "refresh") await view.refresh();
  else if (name === "clear") selection.clear();
  else if (name === "gridView") viewMode.toggle();
  else if (name === "filter") view.toolbar.field.focus();
  else if (name === "search") {
    if (session.mayIn(view.path, "list")) view.searchView.open(view.path, listing.filter && view.toolbar.field.value.trim());
  } else if (name === "up" && view.path !== "/") view.leaveFor(parent(view.path));
  if (name === "focusList" || name === "clear") view.grid.focus();
}

/** @param {FolderView} view @param {string} path */
const activityOf = (view, path) => showActivity(path, () => view.refresh({ quiet: true }));

/** @param {FolderView} view @param {string} path */
const detailsOf = (view, path) => showDetails(path, session.isGuest ? undefined : () => activityOf(view, path));
