/** The unfinished uploads of this browser. They outlive a reload: a file that is chosen again goes on where it was. */

import { session } from "../api/session.js";

/** @import { OnConflict } from "../types.js" */
/** @typedef {{id: string, onConflict: OnConflict, expires: number}} KnownUpload */

const PREFIX = "portico.upload:";

/** A guest is known by a token, which is kept as long as there are unfinished uploads. @type {{keepFor?: (until: number) => void, finished?: () => void}} */
const guest = /** @type {any} */ (session);

/** What makes a file the same one. @param {string} folder @param {File} file */
const keyOf = (folder, file) => PREFIX + JSON.stringify([session.username, folder, file.name, file.size, file.lastModified]);

/** @param {string} folder @param {File} file @returns {KnownUpload | null} */
export function knownUpload(folder, file) {
  return read(keyOf(folder, file));
}

/** @param {string} folder @param {File} file @param {KnownUpload} upload */
export function rememberUpload(folder, file, upload) {
  try {
    forgetExpired();
    localStorage.setItem(keyOf(folder, file), JSON.stringify(upload));
    guest.keepFor?.(upload.expires);
  } catch {
    // The storage is full or not allowed. The upload works, but does not outlive a reload.
  }
}

/** @param {string} folder @param {File} file */
export function forgetUpload(folder, file) {
  localStorage.removeItem(keyOf(folder, file));
  const mine = PREFIX + JSON.stringify([session.username]).slice(0, -1);
  if (!keys().some((name) => name.startsWith(mine))) guest.finished?.();
}

/** @param {string} key @returns {KnownUpload | null} */
function read(key) {
  const text = localStorage.getItem(key);
  return text ? JSON.parse(text) : null;
}

const keys = () => Array.from({ length: localStorage.length }, (_, index) => localStorage.key(index) ?? "");

function forgetExpired() {
  for (const key of keys().filter((name) => name.startsWith(PREFIX))) {
    if ((read(key)?.expires ?? 0) < Date.now()) localStorage.removeItem(key);
  }
}
