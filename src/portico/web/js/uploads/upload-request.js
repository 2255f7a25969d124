/** A request with a body. It uses XMLHttpRequest because fetch reports no upload progress. */

import { ApiError, SignedOut, statusOf, Unreachable } from "../api/errors.js";
import { session } from "../api/session.js";

/** A request that makes no progress for so long is given up: a line can die without a word. */
const STALLED = 60_000;

/** @typedef {{headers?: Record<string, string>, body?: Blob, signal?: AbortSignal, onProgress?: (sent: number) => void}} SendOptions */

/** @param {string} method @param {string} url @param {SendOptions} options @returns {Promise<XMLHttpRequest>} a successful one; anything else is thrown */
export async function send(method, url, options) {
  const token = await session.token();
  try {
    return await attempt(token, method, url, options);
  } catch (error) {
    if (statusOf(error) !== 401) throw error;
  }
  const renewed = await session.renewed(token);
  try {
    return await attempt(renewed, method, url, options);
  } catch (error) {
    if (statusOf(error) !== 401) throw error;
    session.end();
    throw new SignedOut();
  }
}

/** @param {string} token @param {string} method @param {string} url @param {SendOptions} options @returns {Promise<XMLHttpRequest>} */
function attempt(token, method, url, { headers = {}, body, signal, onProgress }) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const request = new XMLHttpRequest();
    let timer = 0;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => request.abort(), STALLED);
    };
    const abort = () => request.abort();
    request.open(method, url);
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    for (const [name, value] of Object.entries({ ...headers, ...session.uploadHeaders })) request.setRequestHeader(name, value);
    request.responseType = "text";
    request.upload.onprogress = ({ loaded }) => {
      watch();
      onProgress?.(loaded);
    };
    request.onload = () => (request.status < 300 ? resolve(received(request)) : reject(errorOf(request)));
    request.onerror = () => reject(new Unreachable());
    request.onabort = () => reject(signal?.aborted ? signal.reason : new Unreachable());
    request.onloadend = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    signal?.addEventListener("abort", abort);
    watch();
    request.send(body ?? null);
  });
}

/** @param {XMLHttpRequest} request */
function received(request) {
  session.received?.(request.responseText);
  return request;
}

/** @param {XMLHttpRequest} request */
function errorOf(request) {
  let body = {};
  try {
    body = JSON.parse(request.responseText);
  } catch {
    // Not from the gateway: a proxy's error page, for example.
  }
  return new ApiError(request.status, body, (name) => request.getResponseHeader(name));
}
