/** The address of a search: that of its folder, and what is searched for. */

import { link } from "../paths.js";

/** @param {string} folder @param {Record<string, string>} parameters of the form */
export const searchLink = (folder, parameters) => `${link(folder)}?${new URLSearchParams(parameters)}`;

/** @param {string} hash @returns {Record<string, string> | null} null if the address is not that of a search */
export function searchIn(hash) {
  const [, query] = hash.split(/\?(.*)/s);
  return query ? Object.fromEntries(new URLSearchParams(query)) : null;
}
