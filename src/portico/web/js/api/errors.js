/** What can go wrong between the page and the gateway. */

import { isGuestPage, keepsDeleted } from "../config.js";
import { make } from "../ui/dom.js";
import { hasMessage, t } from "../i18n/i18n.js";
import { visible } from "../visible-text.js";

/** @import { ErrorBody } from "../types.js" */

/** Codes that users can resolve themselves. The log says no more about them, so the request id is left out. */
const WITHOUT_REQUEST_ID = new Set(["invalid-path", "invalid-cursor", "weak-password", "wrong-password", "not-found", "forbidden", "not-a-folder", "is-a-folder", "already-exists", "not-possible", "folder-not-empty", "changed", "digest-mismatch", "too-large", "too-many-requests", "upload-taken-over"]);

/** Codes with several causes: only the gateway's detail names the limit, the character or the level. */
const WITH_DETAIL = new Set(["invalid-path", "invalid-request", "not-possible", "too-large"]);

/** Codes that need no detail. For other errors of a tree operation it says how much was done and how to continue. */
const WITHOUT_TREE_DETAIL = new Set(["already-exists", "forbidden", "not-found", "internal"]);

const TEMPORARY = new Set(["timeout", "too-many-requests", "unavailable", "provider-unavailable", "provider-timeout", "request-running", "upload-taken-over"]);

/** The translated message for an error code: the one for this page, if there are several. @param {string} code */
function messageFor(code) {
  const key = `problem_${code.replaceAll("-", "_")}`;
  const found = [isGuestPage ? `${key}_guest` : keepsDeleted ? `${key}_trash` : "", key].find(hasMessage);
  return found ? t(found) : "";
}

export class PageError extends Error {
  /** @param {string} code @param {string} message */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** An error response (RFC 9457, or RFC 6749 from the sign-in). Unknown codes show the gateway's own message. */
export class ApiError extends PageError {
  /**
   * @param {number} status
   * @param {ErrorBody} body
   * @param {(name: string) => string | null} header
   * @param {{tree?: boolean}} [options] `tree`: a move, copy or delete, which may have been done in part
   */
  constructor(status, body, header, { tree = false } = {}) {
    // The answer to a HEAD has no body.
    const code = body.code ?? body.error ?? header("X-Error-Code") ?? "";
    const message = messageFor(code);
    super(code, message || visible(body.detail ?? body.error_description ?? t("unexpectedAnswer", { status: String(status) })));
    /** The gateway's own message, in English, where it says more. */
    this.detail = message && (WITH_DETAIL.has(code) || (tree && !WITHOUT_TREE_DETAIL.has(code))) ? visible(body.detail ?? "") : "";
    this.status = status;
    this.requestId = WITHOUT_REQUEST_ID.has(code) ? "" : (body.requestId ?? header("X-Request-Id") ?? "");
    this.retryAfter = Number(header("Retry-After")) || 0;
    /** Uploads: how many files of the request were stored, in its order. */
    this.storedCount = body.stored?.length ?? 0;
  }
}

/** A name that the gateway would refuse. It is not sent. */
export class InvalidName extends PageError {
  constructor() {
    super("invalid-path", t("invalidName"));
  }
}

export class Unreachable extends PageError {
  constructor() {
    super("unreachable", t("unreachable"));
  }
}

/** A chosen file cannot be read any more. */
export class FileChanged extends PageError {
  constructor() {
    super("file-changed", t("fileChanged"));
  }
}

/** The session has ended; the user has to sign in again. */
export class SignedOut extends PageError {
  constructor() {
    super("signed-out", t("sessionEnded"));
  }
}

/** @param {unknown} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** @param {unknown} error */
export const codeOf = (error) => (error instanceof PageError ? error.code : "");

/** The HTTP status, or 0 without a response. @param {unknown} error */
export const statusOf = (error) => (error instanceof ApiError ? error.status : 0);

/** Whether no answer came from the gateway itself: the line is down, or a proxy has lost it. @param {unknown} error */
export const isDisconnected = (error) => error instanceof Unreachable || (!codeOf(error) && statusOf(error) >= 502 && statusOf(error) <= 504);

/** Whether the same request may succeed in a moment. @param {unknown} error */
export const isTemporary = (error) => isDisconnected(error) || TEMPORARY.has(codeOf(error));

/** @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {Response} response @param {{tree?: boolean}} [options] */
export async function errorFrom(response, options) {
  const body = await response.json().catch(() => ({}));
  return new ApiError(response.status, body, (name) => response.headers.get(name), options);
}

/** The message, with the request id that an administrator needs to find it in the log. @param {unknown} error */
export function errorText(error) {
  return error instanceof ApiError && error.requestId ? `${error.message} ${t("requestId", { id: error.requestId })}` : messageOf(error);
}

/** The same where there is room: the gateway's detail follows in small type. @param {unknown} error @returns {(Node | string)[]} */
export function errorContent(error) {
  const detail = error instanceof ApiError ? error.detail : "";
  return [errorText(error), ...(detail ? [make("small", { class: "detail", lang: "en" }, detail)] : [])];
}
