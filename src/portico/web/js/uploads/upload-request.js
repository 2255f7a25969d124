/** The upload of one file. It uses XMLHttpRequest because fetch reports no upload progress. */

import { fileUrl, nameFromUrl } from "../api/client.js";
import { encoded, join } from "../paths.js";
import { ApiError, statusOf, Unreachable } from "../api/errors.js";
import { session } from "../api/session.js";

/** @import { OnConflict } from "../types.js" */
/** @typedef {{onConflict: OnConflict, signal: AbortSignal, onProgress: (sent: number) => void}} UploadOptions */

/** @param {string} folder @param {File} file @param {UploadOptions} options @returns {Promise<string>} the name that the file was stored under */
export async function uploadFile(folder, file, options) {
  const token = await session.token();
  try {
    return await post(token, folder, file, options);
  } catch (error) {
    if (statusOf(error) !== 401) throw error;
    return post(await session.renewed(token), folder, file, options);
  }
}

/** @param {string} token @param {string} folder @param {File} file @param {UploadOptions} options @returns {Promise<string>} */
function post(token, folder, file, { onConflict, signal, onProgress }) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("data", file, file.name);
    request.open("POST", fileUrl(folder, { onConflict }));
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.responseType = "text";
    request.upload.onprogress = (event) => onProgress(Math.min(file.size, event.loaded));
    request.onload = () => (request.status < 300 ? resolve(nameFromUrl(request.getResponseHeader("Content-Location") ?? encoded(join(folder, file.name)))) : reject(errorOf(request)));
    request.onerror = () => reject(new Unreachable());
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
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
