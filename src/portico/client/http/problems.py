"""Turns error responses into exceptions."""

from collections.abc import Mapping
from typing import Any

from portico.client import errors
from portico.client.errors import ClientError, Internal, NotAGateway

_CLASSES: list[type[ClientError]] = [getattr(errors, name) for name in errors.__all__]

BY_CODE: dict[str, type[ClientError]] = {kind.code: kind for kind in _CLASSES if not kind.own} | {
    # The sign-in uses OAuth's codes.
    "slow_down": errors.TooManyRequests,
    "temporarily_unavailable": errors.Unavailable,
    "invalid_client": errors.SignInFailed,
    "invalid_request": errors.InvalidRequest,
    "unsupported_grant_type": errors.InvalidRequest,
}

BY_STATUS: dict[int, type[ClientError]] = {
    400: errors.InvalidRequest,
    401: errors.NotSignedIn,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    408: errors.RequestTimeout,
    409: errors.NotPossible,
    412: errors.Changed,
    413: errors.TooLarge,
    414: errors.UriTooLong,
    415: errors.UnsupportedMediaType,
    416: errors.RangeNotSatisfiable,
    422: errors.InvalidRequest,
    429: errors.TooManyRequests,
    431: errors.HeadersTooLarge,
    460: errors.ChecksumMismatch,
    500: errors.Internal,
    # Without a code, these come from a proxy that cannot reach the gateway.
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
    507: errors.StorageFull,
}
"""For responses without a code, or with one that this client does not know."""


def problem(status: int, headers: Mapping[str, str], body: object) -> ClientError:
    """The error in a response; `body` is its parsed JSON, if it has any."""
    fields: Mapping[str, Any] = body if isinstance(body, dict) else {}
    # The response to a HEAD has no body.
    code = _text(fields.get("code") or fields.get("error")) or headers.get("x-error-code")
    kind = BY_CODE.get(code or "") or BY_STATUS.get(status) or (Internal if status >= 500 else NotAGateway)
    detail = _text(fields.get("detail") or fields.get("error_description"))
    if detail is None and 300 <= status < 400:
        detail = f"The gateway redirects to {headers.get('location', 'another address')}; use that address."
    pause = headers.get("retry-after", "")
    return kind(
        detail or f"The response has status {status} and no further explanation.",
        code=code,
        status=status,
        request_id=_text(fields.get("requestId")) or headers.get("x-request-id"),
        retry_after=float(pause) if pause.isascii() and pause.isdecimal() and len(pause) < 10 else None,
        stored=_names(fields.get("stored")),
        failed=_names(fields.get("failed")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
