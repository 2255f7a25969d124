/** The files that a user picked or dropped, each with its target folder. */

import { join } from "../paths.js";

/** @import { PickedFile } from "../types.js" */

/** @param {FileList | null} files from an input; those of a picked folder have relative paths @param {string} target @returns {PickedFile[]} */
export function filesFromInput(files, target) {
  return [...(files ?? [])].map((file) => {
    const folders = file.webkitRelativePath.split("/").slice(0, -1);
    return { folder: folders.reduce(join, target), name: file.name, file };
  });
}

/** @param {DataTransfer} transfer @param {string} target */
export async function filesFromDrop(transfer, target) {
  // The browser clears the transfer after the first await, so all entries are read before it.
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const roots = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  /** @type {PickedFile[]} */
  const picked = [];
  for (const root of roots) {
    if (root instanceof File) picked.push({ folder: target, name: root.name, file: root });
    else if (root) await walk(root, target, picked);
  }
  return picked;
}

/** @param {FileSystemEntry} entry @param {string} folder @param {PickedFile[]} picked */
async function walk(entry, folder, picked) {
  if (isFile(entry)) {
    /** @type {File} */
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    picked.push({ folder, name: file.name, file });
  } else if (isDirectory(entry)) {
    const inner = join(folder, entry.name);
    const children = await childrenOf(entry);
    if (!children.length) picked.push({ folder: inner, name: entry.name, file: null });
    for (const child of children) await walk(child, inner, picked);
  }
}

/** @param {FileSystemEntry} entry @returns {entry is FileSystemFileEntry} */
const isFile = (entry) => entry.isFile;

/** @param {FileSystemEntry} entry @returns {entry is FileSystemDirectoryEntry} */
const isDirectory = (entry) => entry.isDirectory;

/** @param {FileSystemDirectoryEntry} folder */
async function childrenOf(folder) {
  const reader = folder.createReader();
  /** @type {FileSystemEntry[]} */
  const children = [];
  for (;;) {
    // A reader returns up to a hundred entries at a time, and none at the end.
    /** @type {FileSystemEntry[]} */
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!batch.length) return children;
    children.push(...batch);
  }
}
