/** The part of the REST API that the page uses. */

import { errorFrom, InvalidName, isAbort, Unreachable } from "./errors.js";
import { encoded, isName, split } from "../paths.js";
import { session } from "./session.js";

/** @import { ActivityPage, EntryBody, ListingPage, SearchPage, TrashPage } from "../types.js" */
/** @typedef {{username: string, rights: string[], mounts?: import("./mounts.js").Mount[]}} Access */
/** @typedef {{signal?: AbortSignal, headers?: Record<string, string>, json?: object, tree?: boolean}} RequestOptions `json`: the body; `tree`: it may be done in part */

const FILESYSTEM = "/backend/1.0.0/filesystem";
export const TRASH = "/backend/1.0.0/trash";

/**
 * Always below `FILESYSTEM`: browsers resolve `..` before they send, so such a name would send the token to another route.
 * @param {string} path
 * @param {Record<string, string>} [query]
 */
export function fileUrl(path, query = {}) {
  if (!split(path).every(isName)) throw new InvalidName();
  const parameters = new URLSearchParams(query).toString();
  return FILESYSTEM + encoded(path) + (parameters && `?${parameters}`);
}

/** What a request has put into the trash. @param {string | null} header X-Trash-Id */
export const trashedIds = (header) => header?.split(", ") ?? [];

/** The name at the end of a URL in a response. @param {string} url */
export const nameFromUrl = (url) => decodeURIComponent(url.slice(url.lastIndexOf("/") + 1));

/**
 * @param {string} method
 * @param {string} url
 * @param {RequestOptions} [options]
 * @returns {Promise<Response>} a successful response; anything else is thrown
 */
export async function request(method, url, { signal, headers = {}, json, tree = false } = {}) {
  const body = json && JSON.stringify(json);
  if (body) headers = { ...headers, "Content-Type": "application/json" };
  let token = await session.token();
  let response = await send(method, url, token, headers, signal, body);
  if (response.status === 401) {
    token = await session.renewed(token);
    response = await send(method, url, token, headers, signal, body);
    if (response.status === 401) session.end();
  }
  if (response.status === 403) session.dispatchEvent(new Event("refused"));
  if (!response.ok) throw await errorFrom(response, { tree });
  return response;
}

/** @param {string} method @param {string} url @param {string} token @param {Record<string, string>} headers @param {AbortSignal} [signal] @param {string} [body] */
async function send(method, url, token, headers, signal, body) {
  try {
    return await fetch(url, { method, signal, body, headers: { ...headers, Authorization: `Bearer ${token}` } });
  } catch (error) {
    throw isAbort(error) ? error : new Unreachable();
  }
}

/** @param {string} path @param {Record<string, string>} query @param {RequestOptions} [options] */
const post = async (path, query, options) => request("POST", fileUrl(path, query), options);

/** @param {string} path @param {{cursor: string | null, size: number, signal?: AbortSignal}} options @returns {Promise<ListingPage>} */
export async function listPage(path, { cursor, size, signal }) {
  const query = { action: "LIST", size: String(size), ...(cursor ? { cursor } : {}) };
  return (await request("GET", fileUrl(path, query), { signal })).json();
}

/** @param {string} path @param {{criteria: Record<string, string>, cursor: string | null, size: number, signal?: AbortSignal}} options @returns {Promise<SearchPage>} */
export async function searchPage(path, { criteria, cursor, size, signal }) {
  const query = { ...criteria, action: "SEARCH", size: String(size), ...(cursor ? { cursor } : {}) };
  return (await request("GET", fileUrl(path, query), { signal })).json();
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<EntryBody>} */
export async function stat(path, signal) {
  return (await request("GET", fileUrl(path, { action: "STAT" }), { signal })).json();
}

/** The version of a file. @param {string} path @param {AbortSignal} [signal] */
export async function etag(path, signal) {
  return (await request("HEAD", fileUrl(path, { action: "DOWNLOAD" }), { signal })).headers.get("ETag");
}

/** The content of a file, or its first `limit` bytes. @param {string} path @param {{limit?: number, signal?: AbortSignal}} [options] */
export async function read(path, { limit, signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = limit ? { Range: `bytes=0-${limit - 1}` } : {};
  return request("GET", fileUrl(path, { action: "DOWNLOAD" }), { signal, headers });
}

/** A small picture of a file, and how many pages the file has. @param {string} path @param {{size: 256 | 1600, page?: number, signal?: AbortSignal}} options */
export async function thumbnail(path, { size, page = 1, signal }) {
  const response = await request("GET", fileUrl(path, { action: "THUMBNAIL", size: String(size), page: String(page) }), { signal });
  return { blob: await response.blob(), pages: Number(response.headers.get("X-Page-Count") ?? 1) };
}

/** A URL from which the browser itself can download the file, for a minute. @param {string} path */
export async function downloadLink(path) {
  const { ticket } = await ticketFor(path);
  return fileUrl(path, { ticket });
}

/** A ticket for a file. `renewed`: one that has not expired, which then stays the same. @param {string} path @param {{renewed?: string, signal?: AbortSignal}} [options] @returns {Promise<{ticket: string, expiresIn: number}>} */
export async function ticketFor(path, { renewed, signal } = {}) {
  return (await post(path, { action: "TICKET", ...(renewed ? { ticket: renewed } : {}) }, { signal })).json();
}

/** The same for a folder as one ZIP, and for some of its entries if they are posted to it. @param {string} path */
export async function archiveLink(path) {
  const { ticket } = await (await post(path, { action: "TICKET", recursive: "true" })).json();
  return fileUrl(path, { action: "ZIP", ticket });
}

/** @param {string} path @param {AbortSignal} [signal] */
export const makeFolder = (path, signal) => post(path, { action: "MKDIR" }, { signal });

/** @param {{cursor: string | null, signal?: AbortSignal}} options @returns {Promise<TrashPage>} */
export async function trashPage({ cursor, signal }) {
  return (await request("GET", `${TRASH}?${new URLSearchParams({ size: "100", ...(cursor ? { cursor } : {}) })}`, { signal })).json();
}

/** What happened to a file or folder. @param {string} path @param {{cursor: string | null, signal?: AbortSignal}} options @returns {Promise<ActivityPage>} */
export async function activityPage(path, { cursor, signal }) {
  const query = { action: "ACTIVITY", size: "50", ...(cursor ? { cursor } : {}) };
  return (await request("GET", fileUrl(path, query), { signal })).json();
}

/** The user behind this token, with current rights. @returns {Promise<Access>} */
export async function whoAmI() {
  return (await request("GET", "/backend/session")).json();
}
