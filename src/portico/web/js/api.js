/** The REST interface, as far as the page uses it. */

import { InvalidName, Unreachable, isAbort, problemOf } from "./problems.js";
import { encoded, isName, split } from "./paths.js";
import { session } from "./session.js";

export const FILESYSTEM = "/backend/1.0.0/filesystem";

/**
 * Always below `FILESYSTEM`: browsers resolve `..` before they send, so such a name would take the token to another route.
 * @param {string} path @param {Record<string, string>} [query]
 */
export function address(path, query = {}) {
  if (!split(path).every(isName)) throw new InvalidName();
  const parameters = new URLSearchParams(query).toString();
  return FILESYSTEM + encoded(path) + (parameters && `?${parameters}`);
}

/** The name at the end of an address that the gateway answered with. */
export const nameAt = (location) => decodeURIComponent(location.split("/").at(-1));

/**
 * @param {string} method
 * @param {string} url
 * @param {{signal?: AbortSignal, headers?: Record<string, string>, tree?: boolean}} [options] `tree`: it may be done in part
 * @returns {Promise<Response>} an answer below 300; anything else is thrown
 */
async function call(method, url, { signal, headers = {}, tree = false } = {}) {
  let token = await session.token();
  let response = await send(method, url, token, headers, signal);
  if (response.status === 401) {
    token = await session.renewed(token);
    response = await send(method, url, token, headers, signal);
    if (response.status === 401) session.end();
  }
  if (!response.ok) throw await problemOf(response, { tree });
  return response;
}

async function send(method, url, token, headers, signal) {
  try {
    return await fetch(url, { method, signal, headers: { ...headers, Authorization: `Bearer ${token}` } });
  } catch (error) {
    throw isAbort(error) ? error : new Unreachable();
  }
}

const post = async (path, query, options) => call("POST", address(path, query), options);

/** @returns {Promise<{nextCursor: string | null, content: object[]}>} */
export async function listPage(path, { cursor, size, signal }) {
  const query = { action: "LIST", size: String(size), ...(cursor ? { cursor } : {}) };
  return (await call("GET", address(path, query), { signal })).json();
}

export async function stat(path, signal) {
  return (await call("GET", address(path, { action: "STAT" }), { signal })).json();
}

/** The content of a file, or its first `most` bytes. */
export async function read(path, { most, signal } = {}) {
  const headers = most ? { Range: `bytes=0-${most - 1}` } : {};
  return call("GET", address(path, { action: "DOWNLOAD" }), { signal, headers });
}

/** An address from which the browser itself can fetch the file, for a minute. */
export async function downloadLink(path) {
  const { ticket } = await (await post(path, { action: "TICKET" })).json();
  return address(path, { ticket });
}

export const makeFolder = (path, signal) => post(path, { action: "MKDIR" }, { signal });

/** @returns {Promise<string>} the name that it has there */
async function transfer(action, path, target, onConflict) {
  const response = await post(path, { action, target, onConflict }, { tree: true });
  return nameAt(response.headers.get("Location") ?? encoded(target));
}

export const move = (path, target, onConflict = "fail") => transfer("MOVE", path, target, onConflict);

export const copy = (path, target, onConflict = "fail") => transfer("COPY", path, target, onConflict);

export const remove = async (path, { recursive }) => call("DELETE", address(path, recursive ? { recursive: "true" } : {}), { tree: true });

/** What this token may do, as it stands now. @returns {Promise<{username: string, rights: string[]}>} */
export async function whoAmI() {
  return (await call("GET", "/backend/session")).json();
}
