/** What can go wrong between the page and the gateway. */

import { has, t } from "./texts.js";

/** What people can settle by themselves. The log holds no more about it, so the request's id would only be noise. */
const PLAIN = new Set(["invalid-path", "invalid-cursor", "not-found", "forbidden", "not-a-folder", "is-a-folder", "already-exists", "not-possible", "folder-not-empty", "changed", "too-large", "too-many-requests"]);

/** The sentence for a code of the gateway, in the reader's language. */
function sentenceOf(code) {
  const key = `problem_${code.replaceAll("-", "_")}`;
  return has(key) ? t(key) : "";
}

/** The gateway refused (RFC 9457, or RFC 6749 for the sign-in). Its own words are used only for codes that are new here. */
export class Problem extends Error {
  /** @param {number} status @param {{code?: string, error?: string, detail?: string, error_description?: string, requestId?: string}} body */
  constructor(status, body, headers) {
    const code = body.code ?? body.error ?? "";
    super(sentenceOf(code) || (body.detail ?? body.error_description ?? t("unexpectedAnswer", { status: String(status) })));
    this.status = status;
    this.code = code;
    this.requestId = PLAIN.has(code) ? "" : (body.requestId ?? headers?.("X-Request-Id") ?? "");
    this.retryAfter = Number(headers?.("Retry-After")) || 0;
  }
}

/** A name that the gateway would refuse is not sent. */
export const invalidPath = () => new Problem(400, { code: "invalid-path" });

/** Nobody answered. */
export class Unreachable extends Error {
  constructor() {
    super(t("unreachable"));
    this.code = "unreachable";
  }
}

/** The session has ended; only signing in again helps. */
export class SignedOut extends Error {
  constructor() {
    super(t("sessionEnded"));
    this.code = "signed-out";
  }
}

export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** @param {Response} response */
export async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body, (name) => response.headers.get(name));
}

/** The sentence, and the id under which the administrator finds more. */
export function words(error) {
  return error.requestId ? `${error.message} ${t("requestId", { id: error.requestId })}` : error.message;
}
