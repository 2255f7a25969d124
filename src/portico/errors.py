"""The one error family.

Every failure that a caller can be told about is a `PorticoError`: a stable `code` that scripts branch on, and
one plain sentence, `detail`, that says what was wrong and what to do. A detail never carries a secret or a
provider's raw text; what an administrator needs beyond it goes to the log.

Which HTTP status a code becomes is known in `portico.api.problems` only.
"""

from collections.abc import Collection
from copy import copy
from typing import ClassVar, Self


class PorticoError(Exception):
    """Something went wrong that can be said in one sentence."""

    code: ClassVar[str] = "internal"

    def __init__(self, detail: str, *, retry_after: int | None = None, cause: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after
        """Seconds after which trying again makes sense, where that is known."""
        self.cause = cause
        """What the administrator must know; it is logged and never sent."""

        self.half_done = False
        """Whether a part of the work was done before it failed."""

    def after(self, done: str) -> Self:
        """The same error, which also says how far the work had come."""
        error = self.and_says(f"{done} before that.")
        error.half_done = True
        return error

    def and_says(self, sentence: str) -> Self:
        """The same error with one more sentence."""
        error = copy(self)
        error.detail = f"{self.detail} {sentence}"
        error.args = (error.detail,)
        return error


class InvalidRequest(PorticoError):
    code = "invalid-request"


class InvalidPath(PorticoError):
    code = "invalid-path"


class InvalidCursor(PorticoError):
    code = "invalid-cursor"


class NotSignedIn(PorticoError):
    code = "not-signed-in"


class Forbidden(PorticoError):
    code = "forbidden"


class AddressNotAllowed(PorticoError):
    code = "address-not-allowed"


class NotFound(PorticoError):
    code = "not-found"


class MethodNotAllowed(PorticoError):
    code = "method-not-allowed"

    def __init__(self, detail: str, *, allowed: Collection[str]) -> None:
        super().__init__(detail)
        self.allowed = allowed


class ClientTimeout(PorticoError):
    code = "timeout"


class NotAFolder(PorticoError):
    code = "not-a-folder"


class IsAFolder(PorticoError):
    code = "is-a-folder"


class AlreadyExists(PorticoError):
    code = "already-exists"


def already_exists(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"'{name}' exists already and was not replaced; "
        "choose another name, or set onConflict to replace or rename."
    )


class NotPossible(PorticoError):
    code = "not-possible"


class Changed(PorticoError):
    code = "changed"


class FolderNotEmpty(PorticoError):
    code = "folder-not-empty"


class TooLarge(PorticoError):
    code = "too-large"


class UriTooLong(PorticoError):
    code = "uri-too-long"


class UnsupportedMediaType(PorticoError):
    code = "unsupported-media-type"


class RangeNotSatisfiable(PorticoError):
    code = "range-not-satisfiable"

    def __init__(self, detail: str, *, size: int) -> None:
        super().__init__(detail)
        self.size = size


class TooManyRequests(PorticoError):
    code = "too-many-requests"


class ProviderRefused(PorticoError):
    """The storage service does not accept the gateway's own credentials or permissions."""

    code = "provider-refused"


class ProviderFailed(PorticoError):
    """The storage service answered something that makes no sense."""

    code = "provider-error"


class ProviderUnavailable(PorticoError):
    code = "provider-unavailable"


class ProviderTimeout(PorticoError):
    code = "provider-timeout"


class Unavailable(PorticoError):
    """The gateway itself cannot serve now: overload, or its database is out of reach."""

    code = "unavailable"


class StorageFull(PorticoError):
    code = "storage-full"


class Internal(PorticoError):
    """A bug of ours."""
