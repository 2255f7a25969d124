/** From what a person picked or dropped to single files with their target folders. */

import { join } from "./paths.js";

/** @typedef {{folder: string, name: string, file: File | null}} Upload without a file: an empty folder to be made */

/** @param {FileList} files from an input; those of a picked folder know their way in it @returns {Upload[]} */
export function fromInput(files, target) {
  return [...files].map((file) => {
    const steps = file.webkitRelativePath.split("/").slice(0, -1);
    return { folder: steps.reduce(join, target), name: file.name, file };
  });
}

/** @param {DataTransfer} transfer @returns {Promise<Upload[]>} */
export async function fromDrop(transfer, target) {
  // All entries must be taken before the first wait: then the browser closes the transfer.
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const roots = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile()).filter(Boolean);
  const uploads = [];
  for (const root of roots) {
    if (root instanceof File) uploads.push({ folder: target, name: root.name, file: root });
    else await walk(root, target, uploads);
  }
  return uploads;
}

/** @param {FileSystemEntry} entry @param {Upload[]} uploads */
async function walk(entry, folder, uploads) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    uploads.push({ folder, name: file.name, file });
    return;
  }
  const inner = join(folder, entry.name);
  const children = await childrenOf(entry);
  if (!children.length) uploads.push({ folder: inner, name: entry.name, file: null });
  for (const child of children) await walk(child, inner, uploads);
}

async function childrenOf(folder) {
  const reader = folder.createReader();
  const children = [];
  for (;;) {
    // A reader gives a hundred at a time, and nothing at the end.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return children;
    children.push(...some);
  }
}
