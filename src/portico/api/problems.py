"""Errors as responses: the only table of HTTP statuses, and the problem details (RFC 9457)."""

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from portico.api.requests import context_of, instance_of
from portico.model.errors import (
    Internal,
    MethodNotAllowed,
    PorticoError,
    RangeNotSatisfiable,
    RequestRunning,
    StorageFull,
    TusVersion,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"
ERROR_CODE = "X-Error-Code"
"""The code of an error in the response to a HEAD, which has no body."""
DOCS = "/backend/docs"
_FULL_FOR_GUESTS = "The storage is full. Ask the person who sent you the link to make room."

log = structlog.get_logger()


class ProblemType(msgspec.Struct, frozen=True):
    status: int
    title: str


PROBLEM_TYPES: dict[str, ProblemType] = {
    "invalid-request": ProblemType(400, "The request is malformed"),
    "weak-password": ProblemType(400, "The password is too weak"),
    "invalid-path": ProblemType(400, "The path is not valid"),
    "invalid-cursor": ProblemType(400, "The cursor is not valid"),
    "digest-mismatch": ProblemType(400, "The content does not match its digest"),
    "not-signed-in": ProblemType(401, "Sign in first"),
    "forbidden": ProblemType(403, "Not permitted"),
    "more-needed": ProblemType(403, "The link needs more information"),
    "wrong-password": ProblemType(403, "The password is wrong"),
    "limit-reached": ProblemType(403, "The link is used up"),
    "address-not-allowed": ProblemType(403, "This address may not use the gateway"),
    "not-found": ProblemType(404, "Not found"),
    "target-gone": ProblemType(404, "The shared file no longer exists"),
    "no-thumbnail": ProblemType(404, "No thumbnail"),
    "method-not-allowed": ProblemType(405, "Method not allowed"),
    "timeout": ProblemType(408, "The request timed out"),
    "not-a-folder": ProblemType(409, "Not a folder"),
    "is-a-folder": ProblemType(409, "Is a folder"),
    "already-exists": ProblemType(409, "The name already exists"),
    "offset-mismatch": ProblemType(409, "The upload has another offset"),
    "upload-taken-over": ProblemType(409, "Another request has taken over the upload"),
    "not-possible": ProblemType(409, "Not possible"),
    "request-running": ProblemType(409, "The same request is still running"),
    "folder-not-empty": ProblemType(409, "The folder is not empty"),
    "changed": ProblemType(412, "The file has changed"),
    "tus-version": ProblemType(412, "Another version of tus"),
    "too-large": ProblemType(413, "The upload is too large"),
    "uri-too-long": ProblemType(414, "The address is too long"),
    "unsupported-media-type": ProblemType(415, "Unsupported media type"),
    "range-not-satisfiable": ProblemType(416, "Range not satisfiable"),
    "idempotency-key-reused": ProblemType(422, "The idempotency key belongs to another request"),
    "too-many-requests": ProblemType(429, "Too many attempts"),
    "headers-too-large": ProblemType(431, "The headers are too large"),
    "checksum-mismatch": ProblemType(460, "The checksum does not match"),
    "internal": ProblemType(500, "Internal error"),
    "provider-refused": ProblemType(502, "The storage service refused the gateway"),
    "provider-error": ProblemType(502, "The storage service failed"),
    "provider-unavailable": ProblemType(503, "The storage service is unavailable"),
    "unavailable": ProblemType(503, "The gateway is temporarily unavailable"),
    "provider-timeout": ProblemType(504, "The storage service did not respond"),
    "storage-full": ProblemType(507, "The storage is full"),
}


class Problem(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The body of every error under /backend, except those of the sign-in (RFC 6749)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    stored: list[str] | msgspec.UnsetType = msgspec.UNSET
    "Uploads: the files in the request that were stored."
    failed: list[str] | msgspec.UnsetType = msgspec.UNSET
    "Uploads: the files in the request that were refused or cut off."
    faults: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    "Readiness: each failed check, with an explanation. Only for monitors."
    needs: list[str] | msgspec.UnsetType = msgspec.UNSET
    "Share links: what you must send to open the link."


def problem_response(request: Request, error: PorticoError, **more: list[str] | dict[str, str]) -> Response:
    """`more`: further fields of the body."""
    body = msgspec.structs.replace(problem_body(request, error), **more)
    headers = headers_of(error, body.status)
    if request.method == "HEAD":
        headers[ERROR_CODE] = error.code
    return Response(msgspec.json.encode(body), body.status, headers=headers, media_type=MEDIA_TYPE)


def problem_body(request: Request, error: PorticoError) -> Problem:
    """The problem that the request has ended with, logged."""
    log_cause(error)
    context = context_of(request)
    context.code = error.code
    # Guests have no trash to empty, and may not delete.
    detail = _FULL_FOR_GUESTS if context.link and error.code == StorageFull.code else error.detail
    return problem_of(error.code, detail, instance_of(request.scope), context.request_id)


def problem_of(code: str, detail: str, instance: str, request_id: str) -> Problem:
    kind = PROBLEM_TYPES[code]
    return Problem(f"{DOCS}#{code}", kind.title, kind.status, detail, instance, code, request_id)


def status_of(error: PorticoError) -> int:
    return PROBLEM_TYPES[error.code].status


def log_cause(error: PorticoError) -> None:
    """Log what the administrator needs to know about a 5xx; the client is not sent it."""
    if error.cause and PROBLEM_TYPES[error.code].status >= 500:
        log.warning("cause", code=error.code, cause=error.cause)


def headers_of(error: PorticoError, status: int) -> dict[str, str]:
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="portico"'
    if status in (429, 503) or isinstance(error, RequestRunning):
        headers["Retry-After"] = str(error.retry_after or 1)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(sorted(error.allowed))
    if isinstance(error, TusVersion):
        headers["Tus-Version"] = "1.0.0"
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    return headers


def as_problem(request: Request, error: Exception) -> PorticoError:
    """What the client is told of an error. The traceback of an unexpected one is logged under the request id, and never sent."""
    if isinstance(error, PorticoError):
        return error
    if isinstance(error, MemoryError):
        return Unavailable("The gateway is out of memory. Try again in a moment.")
    log.error("bug", exc_info=error, path=instance_of(request.scope), method=request.method)
    sentence = "Something went wrong in the gateway. Give your administrator the request id to find it in the log."
    return Internal(sentence)
