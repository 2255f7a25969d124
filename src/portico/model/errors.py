"""The error family.

Every failure that is reported to a caller is a `PorticoError`: a stable `code` that scripts branch on, and one plain
sentence, `detail`, that says what went wrong and what to do. A detail never contains a secret or the raw text of a
provider; what an administrator needs beyond it is logged.

Only `portico.api.problems` knows the HTTP status of a code.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from textwrap import shorten
from typing import ClassVar, Self


class PorticoError(Exception):
    code: ClassVar[str] = "internal"

    def __init_subclass__(cls, *, code: str = "") -> None:
        super().__init_subclass__()
        cls.code = code or cls.code

    def __init__(self, detail: str, *, retry_after: int | None = None, cause: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after
        """Seconds after which a retry makes sense, if known."""
        self.cause = cause
        """What the administrator needs to know; it is logged and never sent."""

        self.partial = False
        """Whether part of the work was done before the failure."""
        self.trash_ids: Sequence[str] = ()
        """Of what the failed change has put into the trash."""

    def after(self, done: str) -> Self:
        """The same error, which also says how much of the work was done."""
        error = self.with_sentence(f"{done} before that.")
        error.partial = True
        return error

    def with_sentence(self, sentence: str) -> Self:
        error = copy(self)
        error.detail = f"{self.detail} {sentence}"
        error.args = (error.detail,)
        return error


class InvalidRequest(PorticoError, code="invalid-request"): ...


class WeakPassword(InvalidRequest, code="weak-password"):
    """It is too short, too long, or easy to guess."""


class InvalidPath(PorticoError, code="invalid-path"): ...


class InvalidCursor(PorticoError, code="invalid-cursor"): ...


class NotSignedIn(PorticoError, code="not-signed-in"): ...


class WrongPassword(PorticoError, code="wrong-password"):
    """The same error for a wrong password, an unknown user, and one who is disabled or has expired."""


class AccountDisabled(WrongPassword):
    """The password is right. The client must not learn that, so only the audit log tells it apart."""


class AccountExpired(WrongPassword):
    """As for a disabled account."""


class Forbidden(PorticoError, code="forbidden"): ...


class AddressNotAllowed(PorticoError, code="address-not-allowed"): ...


class MoreNeeded(PorticoError, code="more-needed"):
    """A share link asks for a password or a name."""

    def __init__(self, detail: str, *, needs: Collection[str]) -> None:
        super().__init__(detail)
        self.needs = needs


class LimitReached(PorticoError, code="limit-reached"):
    """A share link has been used as often as its owner allows."""


class NotFound(PorticoError, code="not-found"): ...


class TargetGone(NotFound, code="target-gone"):
    """What a share link was made for is not there any more."""


class NoThumbnail(PorticoError, code="no-thumbnail"): ...


class MethodNotAllowed(PorticoError, code="method-not-allowed"):
    def __init__(self, detail: str, *, allowed: Collection[str]) -> None:
        super().__init__(detail)
        self.allowed = allowed


class ClientTimeout(PorticoError, code="timeout"): ...


class NotAFolder(PorticoError, code="not-a-folder"): ...


class IsAFolder(PorticoError, code="is-a-folder"): ...


class AlreadyExists(PorticoError, code="already-exists"): ...


def already_exists(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"'{name}' already exists and was not replaced; choose another name, or set onConflict to replace or rename."
    )


class OffsetMismatch(PorticoError, code="offset-mismatch"):
    """A resumable upload has another offset than the request assumes."""


class UploadTakenOver(PorticoError, code="upload-taken-over"):
    def __init__(self) -> None:
        super().__init__("Another request has taken over this upload. Get its offset before you send more.")


class ChecksumMismatch(PorticoError, code="checksum-mismatch"): ...


class NotPossible(PorticoError, code="not-possible"): ...


class RequestRunning(PorticoError, code="request-running"):
    """Another request with the same idempotency key, or another rewind of the user, has not ended."""


class IdempotencyKeyReused(PorticoError, code="idempotency-key-reused"): ...


class Changed(PorticoError, code="changed"): ...


class TusVersion(PorticoError, code="tus-version"):
    """The version of the tus protocol is missing or not supported."""


class FolderNotEmpty(PorticoError, code="folder-not-empty"): ...


class DigestMismatch(PorticoError, code="digest-mismatch"):
    """What arrived is not what was announced."""


class TooLarge(PorticoError, code="too-large"): ...


class UriTooLong(PorticoError, code="uri-too-long"): ...


class HeadersTooLarge(PorticoError, code="headers-too-large"): ...


class UnsupportedMediaType(PorticoError, code="unsupported-media-type"): ...


class RangeNotSatisfiable(PorticoError, code="range-not-satisfiable"):
    def __init__(self, detail: str, *, size: int) -> None:
        super().__init__(detail)
        self.size = size


class TooManyRequests(PorticoError, code="too-many-requests"): ...


class ProviderRefused(PorticoError, code="provider-refused"):
    """The storage service does not accept the gateway's own credentials or permissions."""


class ProviderFailed(PorticoError, code="provider-error"):
    """The storage service sent an invalid response."""


class ProviderUnavailable(PorticoError, code="provider-unavailable"): ...


class FolderUnusable(ProviderUnavailable):
    """The folder of a connection on this machine is missing, or is not the right one."""

    problem = "can't be used"
    """As the end of a sentence that begins with the folder. Unlike the cause, it contains no path."""


class ProviderTimeout(PorticoError, code="provider-timeout"): ...


class Unavailable(PorticoError, code="unavailable"):
    """The gateway itself cannot serve now: it is overloaded, or its database is unavailable."""


class Misconfigured(Unavailable):
    """It cannot serve until its administrator has changed something."""


class TableMissing(Misconfigured):
    """The database lacks a table or column."""


class StorageFull(PorticoError, code="storage-full"): ...


class Internal(PorticoError):
    """A bug in the gateway."""


# The sentences that several providers share.


@contextmanager
def counting(done: Callable[[], str]) -> Iterator[None]:
    """Add to an error how much was done before it."""
    try:
        yield
    except PorticoError as error:
        raise error.after(done()) from error


def not_found(name: str, *, cause: str | None = None) -> NotFound:
    return NotFound(f"'{name}' doesn't exist. It may have been moved or deleted.", cause=cause)


def is_a_folder(name: str) -> IsAFolder:
    return IsAFolder(f"'{name}' is a folder; choose a file.")


def other_offset(offset: int) -> OffsetMismatch:
    return OffsetMismatch(f"The upload has {offset} bytes; continue from there.")


def cannot_replace_folder(name: str) -> IsAFolder:
    return IsAFolder(f"'{name}' is a folder, and a file can't replace it; choose another name.")


def not_a_folder(name: str) -> NotAFolder:
    return NotAFolder(f"'{name}' is a file, not a folder.")


def folder_not_empty(name: str) -> FolderNotEmpty:
    return FolderNotEmpty(f"'{name}' is not empty; to delete it with its content, add recursive=true.")


def changed(name: str, *, cause: str | None = None) -> Changed:
    return Changed(f"'{name}' has changed. Try again.", cause=cause)


def beyond_end(name: str, size: int) -> RangeNotSatisfiable:
    return RangeNotSatisfiable(f"'{name}' has only {size} bytes; request a range within them.", size=size)


def root_is_a_folder() -> IsAFolder:
    return IsAFolder("The root is a folder; choose a path below it.")


def invalid_name(name: str) -> InvalidPath:
    return InvalidPath(f"The storage doesn't support the name '{name}'; choose another name.")


FREE_SPACE = (
    "Deleted files still take up space for some time, also those removed from the trash. "
    "Ask your administrator to free some."
)
"""What to do about a full storage."""


def storage_full(cause: str | None = None) -> StorageFull:
    return StorageFull(f"The storage is full. {FREE_SPACE}", cause=cause)


def service_refused(cause: str | None = None) -> ProviderRefused:
    return ProviderRefused("The storage denied the gateway access. Tell your administrator.", cause=cause)


def service_failed(cause: str | None = None) -> ProviderFailed:
    return ProviderFailed("The storage reported an error. Tell your administrator.", cause=cause)


def service_unavailable(cause: str | None, retry_after: int) -> ProviderUnavailable:
    detail = "The storage isn't available right now. Try again later."
    return ProviderUnavailable(detail, retry_after=retry_after, cause=cause)


def service_timeout(cause: str, retry_after: int | None = None) -> ProviderTimeout:
    detail = "The storage didn't respond in time. Try again later."
    return ProviderTimeout(detail, retry_after=retry_after, cause=cause)


def target_gone() -> TargetGone:
    return TargetGone("The shared file or folder no longer exists. Ask the person who sent you the link.")


def for_administrator(error: PorticoError) -> str:
    """The message for the administrator: the cause, which users do not see, or the error's own sentence."""
    if not error.cause:
        return error.detail
    cause = shorten(error.cause, 500, placeholder=" …").rstrip(".")
    return f"{cause[:1].upper()}{cause[1:]}."
