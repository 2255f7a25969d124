/** What can go wrong between the page and the gateway. */

import { make } from "./dom.js";
import { has, t } from "./texts.js";

/** What people can settle by themselves. The log holds no more about it, so the request's id would only be noise. */
const PLAIN = new Set(["invalid-path", "invalid-cursor", "not-found", "forbidden", "not-a-folder", "is-a-folder", "already-exists", "not-possible", "folder-not-empty", "changed", "too-large", "too-many-requests"]);

/** Codes with many causes: only the gateway's own sentence has the limit, the character or the level. */
const MANY_CAUSES = new Set(["invalid-path", "invalid-request", "not-possible", "too-large"]);

/** Codes of which the page's sentence says it all. Other errors of a tree also say how much is done, and how to carry on. */
const ONE_CAUSE = new Set(["already-exists", "forbidden", "not-found", "internal"]);

/** The sentence for a code of the gateway, in the reader's language. */
function sentenceOf(code) {
  const key = `problem_${code.replaceAll("-", "_")}`;
  return has(key) ? t(key) : "";
}

/** The gateway refused (RFC 9457, or RFC 6749 for the sign-in). Its own sentence is for codes that are new here, and for facts. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, error?: string, detail?: string, error_description?: string, requestId?: string}} body
   * @param {(name: string) => string | null} [headers]
   * @param {{tree?: boolean}} [work] `tree`: it was a move, copy or delete, which may have been done in part
   */
  constructor(status, body, headers, { tree = false } = {}) {
    const code = body.code ?? body.error ?? "";
    const sentence = sentenceOf(code);
    super(sentence || (body.detail ?? body.error_description ?? t("unexpectedAnswer", { status: String(status) })));
    /** The gateway's own sentence, in English, where it says more. */
    this.detail = sentence && (MANY_CAUSES.has(code) || (tree && !ONE_CAUSE.has(code))) ? (body.detail ?? "") : "";
    this.status = status;
    this.code = code;
    this.requestId = PLAIN.has(code) ? "" : (body.requestId ?? headers?.("X-Request-Id") ?? "");
    this.retryAfter = Number(headers?.("Retry-After")) || 0;
  }
}

/** A name that the gateway would refuse is not sent. */
export class InvalidName extends Error {
  constructor() {
    super(t("invalidName"));
    this.code = "invalid-path";
  }
}

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

/** @param {Response} response @param {{tree?: boolean}} [work] */
export async function problemOf(response, work) {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body, (name) => response.headers.get(name), work);
}

/** The sentence, and the id under which the administrator finds more. */
export function words(error) {
  return error.requestId ? `${error.message} ${t("requestId", { id: error.requestId })}` : error.message;
}

/** The same for places with room: below it, in small type, the gateway's own sentence. @returns {(Node | string)[]} */
export function explained(error) {
  return [words(error), ...(error.detail ? [make("small", { class: "detail", lang: "en" }, error.detail)] : [])];
}
