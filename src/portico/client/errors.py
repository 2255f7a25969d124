"""The client's exceptions: one class for each `code` of the API, and a few for errors on the client's side.

Catch a single class (`NotFound`), temporary errors (`Temporary`) or all of them (`ClientError`).
"""

from collections.abc import Mapping, Sequence

__all__ = [
    "AddressNotAllowed",
    "AlreadyExists",
    "Changed",
    "ChecksumMismatch",
    "ClientError",
    "ConnectionFailed",
    "DigestMismatch",
    "FolderNotEmpty",
    "Forbidden",
    "HeadersTooLarge",
    "IdempotencyKeyReused",
    "Internal",
    "InvalidCursor",
    "InvalidPath",
    "InvalidRequest",
    "IsAFolder",
    "JobCancelled",
    "LimitReached",
    "MethodNotAllowed",
    "MoreNeeded",
    "NoThumbnail",
    "NotAFolder",
    "NotAGateway",
    "NotFound",
    "NotPossible",
    "NotSignedIn",
    "OffsetMismatch",
    "ProfileUnusable",
    "ProviderFailed",
    "ProviderRefused",
    "ProviderTimeout",
    "ProviderUnavailable",
    "RangeNotSatisfiable",
    "RequestRunning",
    "RequestTimeout",
    "SignInFailed",
    "SourceChanged",
    "StorageFull",
    "TargetGone",
    "Temporary",
    "TooLarge",
    "TooManyRequests",
    "TransfersFailed",
    "TusVersion",
    "Unavailable",
    "Unreachable",
    "UnsupportedMediaType",
    "UploadTakenOver",
    "UriTooLong",
    "WeakPassword",
    "WrongDigest",
    "WrongPassword",
    "WrongSize",
]


class ClientError(Exception):
    code = "failed"
    """A stable identifier."""
    own = True
    """Whether it is the client's: no response of the gateway names it."""
    final = False
    """Whether it was temporary, and there are no attempts left."""

    def __init_subclass__(cls, *, code: str = "", own: bool = False) -> None:
        super().__init_subclass__()
        cls.code, cls.own = code or cls.code, own

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
        """A sentence for people."""
        self.code = code or type(self).code
        self.status = status
        """The HTTP status, if there was a response."""
        self.request_id = request_id
        """Identifies the request in the gateway's log."""
        self.retry_after = retry_after
        self.stored = tuple(stored)
        """For an upload of several files: the names of those that were stored."""
        self.failed = tuple(failed)
        """For an upload of several files: the names of those that failed."""

    def __str__(self) -> str:
        return f"{self.detail} (request {self.request_id})" if self.request_id else self.detail


class Temporary(ClientError, own=True):
    """The same request may succeed later."""


class InvalidRequest(ClientError, code="invalid-request"): ...


class InvalidPath(ClientError, code="invalid-path"): ...


class InvalidCursor(ClientError, code="invalid-cursor"): ...


class MoreNeeded(ClientError, code="more-needed"):
    """A share link asks for a password or a name."""


class WeakPassword(ClientError, code="weak-password"):
    """A new password is too short, or easy to guess."""


class WrongPassword(ClientError, code="wrong-password"):
    """Of a share link, or one's own that is to be changed."""


class LimitReached(ClientError, code="limit-reached"):
    """A share link has been used as often as its owner allows."""


class NotSignedIn(ClientError, code="not-signed-in"): ...


class Forbidden(ClientError, code="forbidden"): ...


class AddressNotAllowed(ClientError, code="address-not-allowed"): ...


class NotFound(ClientError, code="not-found"): ...


class TargetGone(NotFound, code="target-gone"):
    """What a share link was made for is gone."""


class NoThumbnail(ClientError, code="no-thumbnail"):
    """There is no thumbnail of this file, or the gateway makes none."""


class MethodNotAllowed(ClientError, code="method-not-allowed"): ...


class RequestTimeout(Temporary, code="timeout"):
    """The gateway timed out waiting for the rest of the request."""


class NotAFolder(ClientError, code="not-a-folder"): ...


class IsAFolder(ClientError, code="is-a-folder"): ...


class AlreadyExists(ClientError, code="already-exists"): ...


class NotPossible(ClientError, code="not-possible"): ...


class RequestRunning(Temporary, code="request-running"):
    """The gateway is still busy with an earlier attempt of the same request."""


class IdempotencyKeyReused(ClientError, code="idempotency-key-reused"): ...


class FolderNotEmpty(ClientError, code="folder-not-empty"): ...


class Changed(ClientError, code="changed"):
    """The file is not the requested version."""


class DigestMismatch(ClientError, code="digest-mismatch"):
    """The gateway received something else than was sent; it stored nothing."""


class TooLarge(ClientError, code="too-large"): ...


class UriTooLong(ClientError, code="uri-too-long"): ...


class UnsupportedMediaType(ClientError, code="unsupported-media-type"): ...


class RangeNotSatisfiable(ClientError, code="range-not-satisfiable"): ...


class OffsetMismatch(ClientError, code="offset-mismatch"): ...


class UploadTakenOver(ClientError, code="upload-taken-over"): ...


class ChecksumMismatch(ClientError, code="checksum-mismatch"): ...


class TusVersion(ClientError, code="tus-version"): ...


class TooManyRequests(Temporary, code="too-many-requests"): ...


class HeadersTooLarge(ClientError, code="headers-too-large"): ...


class Internal(ClientError, code="internal"):
    """An internal error of the gateway; its log has the details under the request ID."""


class ProviderRefused(ClientError, code="provider-refused"): ...


class ProviderFailed(ClientError, code="provider-error"): ...


class ProviderUnavailable(Temporary, code="provider-unavailable"): ...


class Unavailable(Temporary, code="unavailable"): ...


class ProviderTimeout(Temporary, code="provider-timeout"): ...


class StorageFull(ClientError, code="storage-full"): ...


class SignInFailed(NotSignedIn, code="invalid_grant"):
    """The sign-in failed. The code is OAuth's, such as `invalid_grant` for a wrong user name or password."""


class ConnectionFailed(Temporary, code="connection-failed", own=True):
    """The response is missing or incomplete."""

    def __init__(self, detail: str, *, sent: bool = False, opening: bool = False) -> None:
        super().__init__(detail)
        self.sent = sent
        """Whether the request was sent completely, so that the gateway may have processed it."""
        self.opening = opening
        """Whether the connection could not be established."""


class Unreachable(ClientError, code="unreachable", own=True):
    """There is no gateway at this address, or its certificate is not trusted. Retrying does not help."""


class NotAGateway(ClientError, code="not-a-gateway", own=True):
    """The response is not that of a Portico gateway."""


class JobCancelled(ClientError, code="cancelled", own=True):
    """A change on the gateway was cancelled; what was done before that is kept."""


class SourceChanged(ClientError, code="source-changed", own=True):
    """A local file or stream changed while it was uploaded; it was not stored."""


class ProfileUnusable(ClientError, code="profile-unusable", own=True):
    """The profile does not exist, or cannot be read or written."""


class WrongDigest(ClientError, code="wrong-digest", own=True):
    """The gateway stored something else than was sent, or something else arrived than it has stored."""


class WrongSize(ClientError, code="wrong-size", own=True):
    """The stored file does not have the size that was sent."""


class TransfersFailed(ClientError, code="transfers-failed", own=True):
    """Some of several files could not be transferred; all others were."""

    def __init__(self, failures: Mapping[str, Exception]) -> None:
        path, error = next(iter(failures.items()))
        more = f", and {len(failures) - 1} more failed" if len(failures) > 1 else ""
        super().__init__(f"{path}: {error}{more}")
        self.failures = dict(failures)
        """The error of each path on the gateway."""


COMMON = (NotSignedIn, Forbidden, AddressNotAllowed, ProfileUnusable, ProviderRefused, StorageFull, Temporary)
"""Errors that would affect all other transfers too."""
