"""What can go wrong, as exceptions: one class for each `code` of the interface, and a few for this side of the wire.

Catch a class (`NotFound`), a kind (`Temporary`) or all of them (`ClientError`).
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ClientError(Exception):
    """Something went wrong that can be said in one sentence."""

    code = "failed"
    """A stable word to branch on."""

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        stored: Sequence[str] = (),
        failed: Sequence[str] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        """One sentence for a person."""
        self.code = code or type(self).code
        self.status = status
        """The HTTP status, if the gateway answered at all."""
        self.request_id = request_id
        """Under which the gateway's administrator finds the request in the log."""
        self.retry_after = retry_after
        self.stored = tuple(stored)
        """Of an upload of several files: the names that stand."""
        self.failed = tuple(failed)
        """Of an upload of several files: the names that were refused or broke off."""

    def __str__(self) -> str:
        return f"{self.detail} (request {self.request_id})" if self.request_id else self.detail


class Temporary(ClientError):
    """It may work later, without anything being changed."""

    final = False
    """Whether it has been tried as often as it is to be tried."""


class InvalidRequest(ClientError):
    code = "invalid-request"


class InvalidPath(ClientError):
    code = "invalid-path"


class InvalidCursor(ClientError):
    code = "invalid-cursor"


class NotSignedIn(ClientError):
    code = "not-signed-in"


class Forbidden(ClientError):
    code = "forbidden"


class AddressNotAllowed(ClientError):
    code = "address-not-allowed"


class NotFound(ClientError):
    code = "not-found"


class MethodNotAllowed(ClientError):
    code = "method-not-allowed"


class RequestTimeout(Temporary):
    """The gateway waited in vain for the rest of the request."""

    code = "timeout"


class NotAFolder(ClientError):
    code = "not-a-folder"


class IsAFolder(ClientError):
    code = "is-a-folder"


class AlreadyExists(ClientError):
    code = "already-exists"


class NotPossible(ClientError):
    code = "not-possible"


class FolderNotEmpty(ClientError):
    code = "folder-not-empty"


class Changed(ClientError):
    """The file is not the version that was asked for."""

    code = "changed"


class TooLarge(ClientError):
    code = "too-large"


class UriTooLong(ClientError):
    code = "uri-too-long"


class UnsupportedMediaType(ClientError):
    code = "unsupported-media-type"


class RangeNotSatisfiable(ClientError):
    code = "range-not-satisfiable"


class TooManyRequests(Temporary):
    code = "too-many-requests"


class HeadersTooLarge(ClientError):
    code = "headers-too-large"


class Internal(ClientError):
    """Something went wrong in the gateway; its administrator finds it under the request id."""

    code = "internal"


class ProviderRefused(ClientError):
    code = "provider-refused"


class ProviderFailed(ClientError):
    code = "provider-error"


class ProviderUnavailable(Temporary):
    code = "provider-unavailable"


class Unavailable(Temporary):
    code = "unavailable"


class ProviderTimeout(Temporary):
    code = "provider-timeout"


class StorageFull(ClientError):
    code = "storage-full"


class SignInFailed(NotSignedIn):
    """The sign-in was refused: the code is OAuth's, such as `invalid_grant` for a wrong name or password."""

    code = "invalid_grant"


class ConnectionFailed(Temporary):
    """No answer arrived, or not all of it."""

    code = "connection-failed"

    def __init__(self, detail: str, *, sent: bool = False, opening: bool = False) -> None:
        super().__init__(detail)
        self.sent = sent
        """Whether the whole request had left: then the gateway may have done what it was asked."""
        self.opening = opening
        """Whether there was not even a connection."""


class Unreachable(ClientError):
    """There is no such gateway, or it cannot be trusted; trying again does not help."""

    code = "unreachable"


class NotAGateway(ClientError):
    """The answer is none of a Portico gateway's."""

    code = "not-a-gateway"


class SourceChanged(ClientError):
    """A local file or stream changed while it was read; nothing was stored."""

    code = "source-changed"


class ProfileUnusable(ClientError):
    """There is no such sign-in of the command's, or it cannot be read or written."""

    code = "profile-unusable"


class WrongSize(ClientError):
    """What was stored is not as long as what was sent."""

    code = "wrong-size"


class TransfersFailed(ClientError):
    """Some of many files could not be transferred; all others were."""

    code = "transfers-failed"

    def __init__(self, failures: Mapping[str, Exception]) -> None:
        path, error = next(iter(failures.items()))
        more = f", and {len(failures) - 1} more failed" if len(failures) > 1 else ""
        super().__init__(f"{path}: {error}{more}")
        self.failures = dict(failures)
        """Each path at the gateway, and why it failed."""


BY_CODE: dict[str, type[ClientError]] = {
    "invalid-request": InvalidRequest,
    "invalid-path": InvalidPath,
    "invalid-cursor": InvalidCursor,
    "not-signed-in": NotSignedIn,
    "forbidden": Forbidden,
    "address-not-allowed": AddressNotAllowed,
    "not-found": NotFound,
    "method-not-allowed": MethodNotAllowed,
    "timeout": RequestTimeout,
    "not-a-folder": NotAFolder,
    "is-a-folder": IsAFolder,
    "already-exists": AlreadyExists,
    "not-possible": NotPossible,
    "folder-not-empty": FolderNotEmpty,
    "changed": Changed,
    "too-large": TooLarge,
    "uri-too-long": UriTooLong,
    "unsupported-media-type": UnsupportedMediaType,
    "range-not-satisfiable": RangeNotSatisfiable,
    "too-many-requests": TooManyRequests,
    "headers-too-large": HeadersTooLarge,
    "internal": Internal,
    "provider-refused": ProviderRefused,
    "provider-error": ProviderFailed,
    "provider-unavailable": ProviderUnavailable,
    "unavailable": Unavailable,
    "provider-timeout": ProviderTimeout,
    "storage-full": StorageFull,
    # The sign-in speaks OAuth.
    "slow_down": TooManyRequests,
    "temporarily_unavailable": Unavailable,
    "invalid_client": SignInFailed,
    "invalid_grant": SignInFailed,
    "invalid_request": InvalidRequest,
    "unsupported_grant_type": InvalidRequest,
}

BY_STATUS: dict[int, type[ClientError]] = {
    400: InvalidRequest,
    401: NotSignedIn,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    408: RequestTimeout,
    409: NotPossible,
    412: Changed,
    413: TooLarge,
    414: UriTooLong,
    415: UnsupportedMediaType,
    416: RangeNotSatisfiable,
    429: TooManyRequests,
    431: HeadersTooLarge,
    500: Internal,
    # Without a code of ours it comes from a proxy that found no gateway behind it.
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: StorageFull,
}
"""For answers without a code, or with one that is newer than this client."""

COMMON = (NotSignedIn, Forbidden, AddressNotAllowed, ProfileUnusable, ProviderRefused, StorageFull, Temporary)
"""Failures that every other transfer would meet too."""


def problem(status: int, headers: Mapping[str, str], body: object) -> ClientError:
    """The answer's error; `body` is its JSON, or anything else if it has none."""
    fields: Mapping[str, Any] = body if isinstance(body, dict) else {}
    code = _text(fields.get("code") or fields.get("error"))
    kind = BY_CODE.get(code or "") or BY_STATUS.get(status) or (Internal if status >= 500 else NotAGateway)
    detail = _text(fields.get("detail") or fields.get("error_description"))
    if detail is None and 300 <= status < 400:
        detail = f"The address leads on to {headers.get('location', 'another one')}; use that one."
    return kind(
        detail or f"The answer was {status}, without a word of explanation.",
        code=code,
        status=status,
        request_id=_text(fields.get("requestId")) or headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after", "")),
        stored=_names(fields.get("stored")),
        failed=_names(fields.get("failed")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
