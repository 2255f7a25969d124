/** What can go wrong between the page and the gateway. */

import { t } from "./texts.js";

/** The gateway refused, in its own words (RFC 9457, or RFC 6749 for the sign-in). */
export class Problem extends Error {
  /** @param {number} status @param {{code?: string, error?: string, detail?: string, error_description?: string, requestId?: string}} body */
  constructor(status, body, headers) {
    super(body.detail ?? body.error_description ?? t("unexpectedAnswer", { status: String(status) }));
    this.status = status;
    this.code = body.code ?? body.error ?? "";
    this.requestId = body.requestId ?? headers?.("X-Request-Id") ?? "";
    this.retryAfter = Number(headers?.("Retry-After")) || 0;
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

/** @param {Response} response */
export async function problemOf(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body, (name) => response.headers.get(name));
}

/** The sentence, and the id under which the administrator finds more. */
export function words(error) {
  return error.requestId ? `${error.message} ${t("requestId", { id: error.requestId })}` : error.message;
}
