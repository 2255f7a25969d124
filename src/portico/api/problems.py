"""Errors as answers: the only table of HTTP statuses, and the problem body (RFC 9457)."""

from dataclasses import dataclass

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from portico.errors import (
    Internal,
    MethodNotAllowed,
    PorticoError,
    RangeNotSatisfiable,
    Unavailable,
)

MEDIA_TYPE = "application/problem+json"
DOCS = "/backend/docs"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Kind:
    status: int
    title: str


KINDS: dict[str, Kind] = {
    "invalid-request": Kind(400, "The request is malformed"),
    "invalid-path": Kind(400, "The path is not valid"),
    "invalid-cursor": Kind(400, "The cursor is not valid"),
    "not-signed-in": Kind(401, "Sign in first"),
    "forbidden": Kind(403, "You may not do this"),
    "address-not-allowed": Kind(403, "This address may not use the gateway"),
    "not-found": Kind(404, "Nothing is there"),
    "method-not-allowed": Kind(405, "This method is not known here"),
    "timeout": Kind(408, "The request stopped arriving"),
    "not-a-folder": Kind(409, "This is not a folder"),
    "is-a-folder": Kind(409, "This is a folder"),
    "already-exists": Kind(409, "The name is taken"),
    "not-possible": Kind(409, "This cannot be done"),
    "folder-not-empty": Kind(409, "The folder is not empty"),
    "changed": Kind(412, "The file has changed"),
    "too-large": Kind(413, "The upload is too large"),
    "uri-too-long": Kind(414, "The address is too long"),
    "unsupported-media-type": Kind(415, "The body is of the wrong type"),
    "range-not-satisfiable": Kind(416, "The range lies outside the file"),
    "too-many-requests": Kind(429, "Too many attempts"),
    "headers-too-large": Kind(431, "The headers are too large"),
    "internal": Kind(500, "Something went wrong in the gateway"),
    "provider-refused": Kind(502, "The storage service refused the gateway"),
    "provider-error": Kind(502, "The storage service failed"),
    "provider-unavailable": Kind(503, "The storage service is out of reach"),
    "unavailable": Kind(503, "The gateway cannot serve this now"),
    "provider-timeout": Kind(504, "The storage service did not answer"),
    "storage-full": Kind(507, "The storage is full"),
}


class Problem(msgspec.Struct, omit_defaults=True):
    """What every error under /backend answers, but for the sign-in (RFC 6749)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    requestId: str  # noqa: N815
    stored: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Uploads: the files of the request that stand."""
    failed: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Uploads: the files of the request that were refused or broke off."""


def problem_response(
    request: Request, error: PorticoError, *, stored: list[str] | None = None, failed: list[str] | None = None
) -> Response:
    kind = KINDS[error.code]
    log_cause(error)
    body = Problem(
        type=f"{DOCS}#{error.code}",
        title=kind.title,
        status=kind.status,
        detail=error.detail,
        instance=instance_of(request.scope),
        code=error.code,
        requestId=request.scope["state"]["request_id"],
        stored=msgspec.UNSET if stored is None else stored,
        failed=msgspec.UNSET if failed is None else failed,
    )
    return Response(
        msgspec.json.encode(body), kind.status, headers=headers_of(error, kind.status), media_type=MEDIA_TYPE
    )


def log_cause(error: PorticoError) -> None:
    """What the administrator must know about an answer of 5xx; the client sees less."""
    if error.cause and KINDS[error.code].status >= 500:
        log.warning("cause", code=error.code, cause=error.cause)


def headers_of(error: PorticoError, status: int) -> dict[str, str]:
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="portico"'
    if status in (429, 503):
        headers["Retry-After"] = str(error.retry_after or 1)
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(sorted(error.allowed))
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    return headers


def instance_of(scope: Scope) -> str:
    """The path that was asked, as it was written; never the query, which may carry a ticket."""
    raw: bytes = scope["raw_path"]
    return raw.partition(b"?")[0].decode("ascii", "replace")


def bug_response(request: Request, error: Exception) -> Response:
    """A bug of ours: the trace goes to the log under the request id, and no word of it to the client."""
    if isinstance(error, MemoryError):
        return problem_response(
            request, Unavailable("The gateway is short of memory; try again in a moment.")
        )
    log.error("bug", exc_info=error, path=instance_of(request.scope), method=request.method)
    sentence = "Something went wrong in the gateway; it is in the administrator's log under this request id."
    return problem_response(request, Internal(sentence))
