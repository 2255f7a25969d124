/** One file on its way up. XMLHttpRequest, because only it tells how far the body has come. */

import { address, nameAt } from "./api.js";
import { encoded, join } from "./paths.js";
import { Problem, Unreachable } from "./problems.js";
import { session } from "./session.js";

/**
 * @param {string} folder
 * @param {File} file
 * @param {{onConflict: string, signal: AbortSignal, onProgress: (sent: number) => void}} options
 * @returns {Promise<string>} the name under which it was stored
 */
export async function sendFile(folder, file, options) {
  const token = await session.token();
  try {
    return await post(token, folder, file, options);
  } catch (error) {
    if (error.status !== 401) throw error;
    return post(await session.renewed(token), folder, file, options);
  }
}

function post(token, folder, file, { onConflict, signal, onProgress }) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("data", file, file.name);
    request.open("POST", address(folder, { onConflict }));
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.responseType = "text";
    request.upload.onprogress = (event) => onProgress(Math.min(file.size, event.loaded));
    request.onload = () => (request.status < 300 ? resolve(nameAt(request.getResponseHeader("Content-Location") ?? encoded(join(folder, file.name)))) : reject(problem(request)));
    request.onerror = () => reject(new Unreachable());
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}

/** @param {XMLHttpRequest} request */
function problem(request) {
  let body = {};
  try {
    body = JSON.parse(request.responseText);
  } catch {
    // Something between us and the gateway answered in its own way.
  }
  return new Problem(request.status, body, (name) => request.getResponseHeader(name));
}
