/** One's own account, by REST. */

import { errorFrom, Unreachable } from "./errors.js";
import { request } from "./client.js";

/** @typedef {{username: string, rights: string[], createdAt: string, passwordChangedAt: string, maxFileSize: number | null}} Account */
/** @typedef {{id: string, device: string | null, address: string | null, createdAt: string | null, lastUsedAt: string | null, current: boolean}} OpenSession */
/** @typedef {{id: string, name: string, rights: string[], folder: string, addresses: string[], createdAt: string, expiresAt: string | null, lastUsedAt: string | null, lastUsedFrom: string | null}} ApiKey */
/** @typedef {{name: string, rights?: string[], folder?: string, addresses?: string[], expiresAt?: string | null}} NewKey */

const ACCOUNT = "/backend/1.0.0/account";
const INVITATION = "/backend/1.0.0/invitation";

/** @returns {Promise<Account>} */
export const account = async () => (await request("GET", ACCOUNT)).json();

/** @param {string} oldPassword @param {string} newPassword */
export const changePassword = (oldPassword, newPassword) => request("POST", `${ACCOUNT}/password`, { json: { oldPassword, newPassword } });

/** @returns {Promise<OpenSession[]>} */
export const sessions = async () => (await (await request("GET", `${ACCOUNT}/sessions`)).json()).content;

/** @param {string} id */
export const endSession = (id) => request("DELETE", `${ACCOUNT}/sessions/${id}`);

export const endOtherSessions = () => request("DELETE", `${ACCOUNT}/sessions`);

/** @returns {Promise<ApiKey[]>} */
export const keys = async () => (await (await request("GET", `${ACCOUNT}/keys`)).json()).content;

/** @param {NewKey} key @returns {Promise<ApiKey & {key: string}>} */
export const makeKey = async (key) => (await request("POST", `${ACCOUNT}/keys`, { json: key })).json();

/** @param {string} id */
export const endKey = (id) => request("DELETE", `${ACCOUNT}/keys/${id}`);

/** Whom an invitation is for. @param {string} token @returns {Promise<{username: string}>} */
export const invitation = async (token) => (await unsigned(INVITATION, { token })).json();

/** @param {string} token @param {string} password */
export const acceptInvitation = (token, password) => unsigned(`${INVITATION}/password`, { token, password });

/** Without a session. @param {string} url @param {Record<string, string>} json */
async function unsigned(url, json) {
  let response;
  try {
    response = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) });
  } catch {
    throw new Unreachable();
  }
  if (!response.ok) throw await errorFrom(response);
  return response;
}
