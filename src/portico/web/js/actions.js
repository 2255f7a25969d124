/** What can be done with entries, for those who may. */

import * as api from "./api.js";
import { askConflict, askName, confirm, showFailures } from "./dialogs.js";
import { bdi, make } from "./dom.js";
import { announce, complain, tell } from "./notices.js";
import { join, nameOf } from "./paths.js";
import { pickFolder } from "./picker.js";
import { isAbort, SignedOut } from "./problems.js";
import { session } from "./session.js";
import { t } from "./texts.js";

const LISTED = 5;
const BETWEEN_DOWNLOADS = 400;

const onlyFiles = (entries) => entries.every((entry) => !entry.folder);

/** By name: whether it makes sense for these entries, and the rights that the gateway asks for it. */
const CONDITIONS = {
  download: { rights: ["download"], fits: (entries) => entries.length > 0 && onlyFiles(entries) },
  rename: { rights: ["upload", "overwrite"], fits: (entries) => entries.length === 1 },
  move: { rights: ["upload", "overwrite"], fits: (entries) => entries.length > 0 },
  copy: { rights: ["download", "upload"], fits: (entries) => entries.length > 0 },
  remove: { rights: ["overwrite"], fits: (entries) => entries.length > 0 },
  newFolder: { rights: ["upload"], fits: () => true },
  upload: { rights: ["upload"], fits: () => true },
};

/** @param {keyof typeof CONDITIONS} action @param {import("./listing.js").Entry[]} [entries] */
export function isOffered(action, entries = []) {
  const { rights, fits } = CONDITIONS[action];
  return session.may(...rights) && fits(entries);
}

export async function download(folder, entries) {
  try {
    for (const [index, entry] of entries.entries()) {
      if (index) await new Promise((resolve) => setTimeout(resolve, BETWEEN_DOWNLOADS));
      const href = await api.downloadLink(join(folder, entry.name));
      make("a", { href, download: entry.name }).click();
    }
    announce(t("downloadStarted", { count: entries.length }));
  } catch (error) {
    complain(error);
  }
}

/** @param {import("./listing.js").Listing} listing */
export async function newFolder(listing) {
  let made = "";
  await askName(t("newFolder"), {
    label: t("folderName"),
    yes: t("create"),
    attempt: async (name) => {
      if (listing.byName.has(name)) throw new Error(t("problem_already_exists"));
      await api.makeFolder(join(listing.path, name));
      made = name;
    },
  });
  if (!made) return;
  listing.put({ name: made, folder: true, type: "folder" });
  tell(t("folderMade", { name: made }));
  return made;
}

export async function rename(listing, [entry]) {
  let renamed = "";
  let begun = "";
  await askName(t("renameTitle"), {
    label: t("newName"),
    value: entry.name,
    yes: t("rename"),
    attempt: async (name) => {
      if (name === entry.name) return;
      const [from, to] = [join(listing.path, entry.name), join(listing.path, name)];
      try {
        renamed = await api.move(from, to);
      } catch (error) {
        // What broke off in the middle is carried on by putting the rest where the first part is.
        const choice = error.code === "already-exists" && name === begun ? (await askConflict(name, { mayReplace: session.may("overwrite"), others: false })).choice : "skip";
        if (error.status >= 500) begun = name;
        if (choice === "skip") throw error;
        renamed = await api.move(from, to, choice);
      }
    },
  });
  if (!renamed) return;
  listing.drop([entry.name]);
  listing.put({ ...entry, name: renamed });
  tell(t("renamed", { name: renamed }));
  return renamed;
}

export async function remove(listing, entries) {
  const names = entries.slice(0, LISTED).map((entry) => make("li", {}, bdi(entry.name)));
  const rest = entries.length - LISTED;
  const folders = entries.some((entry) => entry.folder);
  const body = [
    make("ul", { class: "names" }, ...names, rest > 0 ? make("li", { class: "rest" }, t("andMore", { count: rest })) : null),
    make("p", {}, t(folders ? "deleteFoldersHint" : "deleteHint", { count: entries.length })),
  ];
  const sure = await confirm(t("deleteTitle", { count: entries.length }), { body, yes: t("deleteYes", { count: entries.length }), danger: true });
  if (!sure) return;
  await eachOf(entries, {
    act: (entry) => api.remove(join(listing.path, entry.name), { recursive: entry.folder }),
    after: (done) => listing.drop(done.map(({ entry }) => entry.name)),
    said: "deleted",
    failed: "deleteFailed",
  });
}

export async function move(listing, entries) {
  const target = await pickFolder(t("moveTitle", { count: entries.length }), { start: listing.path, yes: t("moveHere"), forbidden: forbiddenTargets(listing, entries, { here: true }) });
  if (!target) return;
  await transfer(listing, entries, target, api.move, {
    after: (done) => listing.drop(done.map(({ entry }) => entry.name)),
    said: "moved",
    failed: "moveFailed",
  });
}

export async function copy(listing, entries) {
  const target = await pickFolder(t("copyTitle", { count: entries.length }), { start: listing.path, yes: t("copyHere"), forbidden: forbiddenTargets(listing, entries, { here: false }) });
  if (!target) return;
  await transfer(listing, entries, target, api.copy, {
    after: (done) => {
      if (target !== listing.path) return;
      for (const { entry, result } of done) listing.put({ ...entry, name: result, modified: entry.folder ? entry.modified : new Date().toISOString() });
    },
    said: "copiedTo",
    failed: "copyFailed",
  });
}

/** Nothing goes into itself, and moving to where it is makes no sense. */
function forbiddenTargets(listing, entries, { here }) {
  const inside = entries.filter((entry) => entry.folder).map((entry) => join(listing.path, entry.name));
  return (path) => (here && path === listing.path) || inside.some((folder) => path === folder || path.startsWith(`${folder}/`));
}

async function transfer(listing, entries, target, request, words) {
  let forAll = target === listing.path ? "rename" : "";
  const act = async (entry) => {
    const from = join(listing.path, entry.name);
    const to = join(target, entry.name);
    if (forAll === "skip") return request(from, to, "fail").catch((error) => skipTaken(error));
    try {
      return await request(from, to, forAll || "fail");
    } catch (error) {
      if (error.code !== "already-exists" || forAll) throw error;
      const answer = await askConflict(entry.name, { mayReplace: session.may("overwrite"), others: entries.length > 1 });
      if (answer.forAll) forAll = answer.choice;
      return answer.choice === "skip" ? null : request(from, to, answer.choice);
    }
  };
  await eachOf(entries, { act, target, ...words });
}

function skipTaken(error) {
  if (error.code === "already-exists") return null;
  throw error;
}

/** One after the other; what failed is told at the end, each with its sentence. */
async function eachOf(entries, { act, after, said, failed, target = "" }) {
  const done = [];
  const failures = [];
  if (entries.length > 1) announce(t("working", { count: entries.length }));
  for (const entry of entries) {
    try {
      const result = await act(entry);
      if (result !== null) done.push({ entry, result });
    } catch (error) {
      if (isAbort(error) || error instanceof SignedOut) break;
      failures.push({ name: entry.name, error });
    }
  }
  after(done);
  const name = target === "/" ? t("root") : nameOf(target);
  const [only] = done.length === 1 ? done : [];
  const renamed = typeof only?.result === "string" && only.result !== only.entry.name;
  if (done.length) tell([t(said, { count: done.length, name }), renamed ? t("storedAs", { name: only.result }) : ""].filter(Boolean).join(" · "));
  if (failures.length) await showFailures(t(failed, { count: failures.length }), failures);
}
