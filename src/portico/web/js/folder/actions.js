/** Actions on entries, and who may use them. */

import * as changes from "../api/changes.js";
import { makeFolder, stat } from "../api/client.js";
import { keepsDeleted } from "../config.js";
import { askConflict, askName, confirm } from "../dialogs/dialogs.js";
import { copyText } from "../ui/clipboard.js";
import { bdi, make } from "../ui/dom.js";
import { notify, notifyError } from "../ui/notices.js";
import { join, pageUrl } from "../paths.js";
import { pickFolder } from "../dialogs/folder-picker.js";
import { linkKinds } from "../dialogs/share.js";
import { codeOf, statusOf } from "../api/errors.js";
import { session } from "../api/session.js";
import { t } from "../i18n/i18n.js";
import { Cancelled } from "../jobs/jobs.js";
import { forEach } from "./each-entry.js";
import { undoRemove, undoReplaced } from "./undo.js";

/** @import { ConflictChoice, Entry, EntryAction, FolderAction, OnConflict } from "../types.js" */
/** @import { Outcome } from "./each-entry.js" */
/** @import { Listing } from "./listing.js" */
/** @import { Replaced, Trashed } from "./undo.js" */

/** How many names a confirmation lists. */
const MAX_NAMES = 5;

/** @param {Entry[]} entries */
const one = (entries) => entries.length === 1;
/** @param {Entry[]} entries */
const some = (entries) => entries.length > 0;
/** @param {...string} rights @returns {(path: string) => boolean} */
const may = (...rights) => (path) => session.mayIn(path, ...rights);
/** For what changes an entry as a whole. @param {(path: string) => boolean} allowed @returns {(path: string) => boolean} */
const whole = (allowed) => (path) => session.mounts.isWhole(path) && allowed(path);

/**
 * What the gateway allows at a path, and the entries that it applies to.
 * @type {Record<EntryAction, {allowed: (path: string, entry: Entry) => boolean, fits: (entries: Entry[]) => boolean}>}
 */
const CONDITIONS = {
  download: { allowed: may("download"), fits: some },
  copyLink: { allowed: () => true, fits: one },
  share: { allowed: (path, { folder }) => linkKinds(path, folder).length > 0, fits: one },
  details: { allowed: may("list"), fits: one },
  activity: { allowed: (path) => !session.isGuest && session.mayIn(path, "list"), fits: one },
  rename: { allowed: whole(may("upload", "overwrite")), fits: one },
  move: { allowed: whole((path) => session.mounts.allowMoveFrom(path)), fits: some },
  copy: { allowed: whole((path) => !session.isGuest && session.may("upload") && session.mayIn(path, "download")), fits: some },
  remove: { allowed: whole(may("delete")), fits: some },
};

/** @type {Record<FolderAction, (path: string) => boolean>} */
const FOLDER_CONDITIONS = {
  newFolder: may("upload"),
  upload: may("upload"),
  downloadFolder: may("list", "download"),
  automate: (path) => !session.isGuest && session.mounts.at(path) !== undefined,
};

/** @param {string} name @returns {name is EntryAction} */
export const isEntryAction = (name) => name in CONDITIONS;

/** @param {EntryAction} action @param {string} folder @param {Entry[]} entries of the folder */
export function isOffered(action, folder, entries) {
  const { allowed, fits } = CONDITIONS[action];
  return fits(entries) && session.mounts.samples(folder, entries).every((entry) => allowed(join(folder, entry.name), entry));
}

/** @param {FolderAction} action @param {string} folder */
export const isOfferedIn = (action, folder) => FOLDER_CONDITIONS[action](folder);

/** @param {Listing} listing @returns {Promise<string>} the name of the new folder, or empty */
export async function newFolder(listing) {
  let created = "";
  await askName(t("newFolder"), {
    label: t("folderName"),
    yes: t("create"),
    attempt: async (name) => {
      if (listing.byName.has(name)) throw new Error(t("problem_already_exists"));
      await makeFolder(join(listing.path, name));
      created = name;
    },
  });
  if (!created) return "";
  listing.put({ name: created, folder: true, type: "folder", ...(await dateOf(join(listing.path, created))) });
  notify(t("folderMade", { name: created }));
  return created;
}

/** When a new folder was made, if the storage knows it. @param {string} path @returns {Promise<{modified?: string}>} */
const dateOf = (path) => (session.mayIn(path, "list") ? stat(path).then(({ lastModified }) => ({ modified: lastModified }), () => ({})) : Promise.resolve({}));

/** @param {Listing} listing @param {Entry} entry @returns {Promise<string>} the new name, or empty */
export async function rename(listing, entry) {
  let renamed = "";
  let interrupted = "";
  /** @type {Promise<string> | null} */
  let moving = null;
  await askName(t("renameTitle"), {
    label: t("newName"),
    value: entry.name,
    yes: t("rename"),
    attempt: async (name) => {
      if (name === entry.name) return;
      const [from, to] = [join(listing.path, entry.name), join(listing.path, name)];
      try {
        renamed = await new Promise((resolve, reject) => {
          // A folder that takes long is no reason to keep the dialog open.
          const begun = changes.move(from, to, "fail", { onJob: () => {
            moving = begun;
            resolve("");
          } });
          begun.then(resolve, reject);
        });
      } catch (error) {
        // An interrupted rename continues by moving the rest to where the first part already is.
        const mayContinue = codeOf(error) === "already-exists" && name === interrupted;
        if (statusOf(error) >= 500) interrupted = name;
        const { choice } = mayContinue ? await askConflict(name, { mayReplace: session.mayIn(listing.path, "replace"), others: false }) : { choice: "skip" };
        if (choice === "skip") throw error;
        renamed = await changes.move(from, to, /** @type {OnConflict} */ (choice));
      }
    },
  });
  if (moving) renamed = await /** @type {Promise<string>} */ (moving).catch((error) => (notifyError(error), ""));
  if (!renamed) return "";
  listing.drop([entry.name]);
  listing.put({ ...entry, name: renamed });
  notify(t("renamed", { name: renamed }));
  return renamed;
}

/** @param {Listing} listing @param {Entry[]} entries */
export async function copyLink(listing, [entry]) {
  await copyText(pageUrl(join(listing.path, entry.name)));
  notify(t("linkCopied"));
}

/** @param {Listing} listing @param {Entry[]} entries */
export async function remove(listing, entries) {
  const names = entries.slice(0, MAX_NAMES).map((entry) => make("li", {}, bdi(entry.name)));
  const rest = entries.length - MAX_NAMES;
  const folders = entries.some((entry) => entry.folder);
  const permanent = make("input", { type: "checkbox" });
  const body = [
    make("ul", { class: "names" }, ...names, rest > 0 ? make("li", { class: "more" }, t("andMore", { count: rest })) : null),
    make("p", {}, t(folders ? "deleteFoldersHint" : "deleteHint", { count: entries.length })),
    keepsDeleted ? make("label", { class: "check" }, permanent, t("deletePermanently")) : make("p", { class: "strong" }, t("deleteForGood")),
  ];
  const sure = await confirm(t("deleteTitle", { count: entries.length }), { body, yes: t("deleteYes", { count: entries.length }), danger: true });
  if (!sure) return;
  /** @type {Trashed[]} */
  const trashed = [];
  await forEach(entries, {
    act: async (entry) => {
      try {
        const id = await changes.remove(join(listing.path, entry.name), { recursive: entry.folder, permanent: permanent.checked });
        if (id) trashed.push({ id, entry });
      } catch (error) {
        if (error instanceof Cancelled && error.trashId) trashed.push({ id: error.trashId, entry, inPart: true });
        throw error;
      }
      return entry.name;
    },
    after: (done) => listing.drop(done.map(({ entry }) => entry.name)),
    success: "deleted",
    failure: "deleteFailed",
    undo: () => (trashed.length && session.mayIn(listing.path, "upload", "overwrite") ? { label: t("undo"), run: () => undoRemove(listing, trashed) } : undefined),
  });
}

/** @param {Listing} listing @param {Entry[]} entries */
export async function move(listing, entries) {
  const target = await pickFolder(t("moveTitle", { count: entries.length }), { start: listing.path, yes: t("moveHere"), isInside: insideOf(listing, entries), isTarget: (path) => mayMoveTo(listing, entries, path) });
  if (target) await moveTo(listing, entries, target);
}

/** @param {Listing} listing @param {Entry[]} entries @param {string} target */
export async function moveTo(listing, entries, target) {
  await transfer(listing, entries, target, changes.move, {
    after: (done) => listing.drop(done.map(({ entry }) => entry.name)),
    success: "moved",
    failure: "moveFailed",
  });
}

/** @param {Listing} listing @param {Entry[]} entries */
export async function copy(listing, entries) {
  const target = await pickFolder(t("copyTitle", { count: entries.length }), { start: listing.path, yes: t("copyHere"), isInside: insideOf(listing, entries), isTarget: (path) => session.mayIn(path, "upload") });
  if (!target) return;
  await transfer(listing, entries, target, changes.copy, {
    after: (done) => {
      if (target !== listing.path) return;
      for (const { entry, name } of done) listing.put({ ...entry, name, modified: entry.folder ? entry.modified : new Date().toISOString() });
    },
    success: "copiedTo",
    failure: "copyFailed",
  });
}

/** Nothing goes into itself. @param {Listing} listing @param {Entry[]} entries */
function insideOf(listing, entries) {
  const inside = entries.filter((entry) => entry.folder).map((entry) => join(listing.path, entry.name));
  /** @param {string} path */
  return (path) => inside.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

/** Whether all of the entries can be moved to a folder: not to where they are, nor into themselves. @param {Listing} listing @param {Entry[]} entries @param {string} target */
export function mayMoveTo(listing, entries, target) {
  return target !== listing.path && !insideOf(listing, entries)(target) && session.mounts.allowMove(listing.path, target);
}

/** @param {Listing} listing @param {Entry[]} entries @param {string} target @param {typeof changes.move} request @param {Outcome} outcome */
async function transfer(listing, entries, target, request, outcome) {
  /** @type {ConflictChoice | ""} */
  let forAll = target === listing.path ? "rename" : "";
  /** @type {Replaced[]} */
  const replaced = [];
  /** @param {Entry} entry */
  const act = async (entry) => {
    const from = join(listing.path, entry.name);
    const to = join(target, entry.name);
    /** @param {OnConflict} onConflict */
    const send = (onConflict) => request(from, to, onConflict, { onTrashed: (ids) => replaced.push({ entry, from, to, ids }) });
    try {
      return await send(forAll && forAll !== "skip" ? forAll : "fail");
    } catch (error) {
      if (codeOf(error) !== "already-exists") throw error;
      if (forAll === "skip") return null;
      if (forAll) throw error;
      const answer = await askConflict(entry.name, { mayReplace: session.mayIn(target, "replace"), others: entries.length > 1 });
      if (answer.forAll) forAll = answer.choice;
      return answer.choice === "skip" ? null : send(answer.choice);
    }
  };
  const moved = request === changes.move;
  const mayUndo = session.mayIn(target, "upload", "overwrite") && (!moved || session.mounts.allowMove(target, listing.path));
  const undo = () => (replaced.length && mayUndo ? { label: t("undoReplaced"), run: () => undoReplaced(listing, replaced, { moved }) } : undefined);
  await forEach(entries, { act, target, undo, ...outcome });
}
