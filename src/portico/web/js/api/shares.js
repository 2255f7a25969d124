/** Share links, for their owners. */

import { request } from "./client.js";

/**
 * @typedef {object} ShareLink
 * @property {string} id
 * @property {string} path
 * @property {boolean} isFolder
 * @property {"download" | "request" | "both"} kind
 * @property {"open" | "used-up" | "expired" | "ended"} state
 * @property {string} title
 * @property {boolean} hasPassword
 * @property {number} downloads
 * @property {number | null} maxDownloads
 * @property {number} uploads
 * @property {number | null} maxUploads
 * @property {string | null} expiresAt
 * @property {string} [token]
 */
/** @typedef {{at: string, action: string, name: string, client: string, path: string, bytes: number | null}} Access */

const LINKS = "/backend/1.0.0/account/links";

/** @param {Record<string, unknown>} options @returns {Promise<ShareLink>} */
export async function addLink(options) {
  return (await request("POST", LINKS, { json: options })).json();
}

/** @returns {Promise<ShareLink[]>} */
export async function listLinks() {
  return (await (await request("GET", LINKS)).json()).content;
}

/** @param {string} id */
export const endLink = (id) => request("DELETE", `${LINKS}/${id}`);

/** @param {string} id @returns {Promise<ShareLink>} */
export async function renewAddress(id) {
  return (await request("POST", `${LINKS}/${id}/address`)).json();
}

/** @param {string} id @returns {Promise<Access[]>} */
export async function listAccesses(id) {
  return (await (await request("GET", `${LINKS}/${id}/accesses`)).json()).content;
}

/** The address of a link by which this page reaches it. @param {ShareLink} link right after it was made or renewed */
export const shareUrl = (link) => `${location.origin}/s/${link.token}`;
