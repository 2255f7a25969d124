"""Errors of both Azure services and of the SDK, translated to those of `portico.model.errors`.

An error response has a status and a code in `x-ms-error-code`. Its text is for developers and is not passed on.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    ServiceRequestError,
    ServiceResponseTimeoutError,
)

from portico.model.errors import (
    InvalidCursor,
    InvalidPath,
    NotPossible,
    PorticoError,
    TooLarge,
    already_exists,
    changed,
    folder_not_empty,
    invalid_name,
    not_found,
    service_failed,
    service_refused,
    service_timeout,
    service_unavailable,
    storage_full,
)
from portico.providers.wire.responses import malformed_response, retry_seconds

_RETRY_SECONDS = 10

_KEY = "the account key or signature doesn't match this account: check account-url, account-key, sas-token"
_CAUSES: Mapping[str, str] = {
    "AuthenticationFailed": _KEY,
    "InvalidAuthenticationInfo": "the service doesn't understand the credential: check the sas-token or identity",
    "NoAuthenticationInformation": "the request was not signed: give account-key or sas-token, "
    "or use https with an identity",
    "AuthorizationFailure": "access denied: the account-key belongs to another account, the account's firewall blocks this "
    "host, or the SAS doesn't cover the container or share",
    "AuthorizationPermissionMismatch": "the identity or SAS lacks the permission for this: assign the role from the guide, or make a "
    "SAS with read, add, create, write, delete and list",
    "AuthorizationProtocolMismatch": "the SAS allows https only: change account-url to https://",
    "AuthorizationResourceTypeMismatch": "the SAS doesn't cover this kind of resource: make one with services, containers and objects",
    "AuthorizationServiceMismatch": "the SAS is for another service of the account",
    "AuthorizationSourceIPMismatch": "the SAS doesn't allow the gateway's address",
    "InsufficientAccountPermissions": "the account doesn't allow this operation",
    "KeyBasedAuthenticationNotPermitted": "account keys are turned off for this account: use an identity, or turn them on",
    "AccountIsDisabled": "the storage account is disabled: look at the subscription",
    "ContainerNotFound": "the container does not exist: create it, or correct the option container",
    "ContainerBeingDeleted": "the container is being deleted",
    "ContainerDisabled": "the container is disabled",
    "ShareNotFound": "the share does not exist: create it, or correct the option share",
    "ShareBeingDeleted": "the share is being deleted",
    "ShareDisabled": "the share is disabled",
    "FeatureVersionMismatch": "this kind of account doesn't support this operation",
    "BlobTypeNotSupported": "this kind of account doesn't support block blobs",
}
"""Codes by which the gateway, not its user, is refused, and what the administrator can do."""


_NOT_POSSIBLE: Mapping[str, str] = {
    "BlobArchived": "is archived. Ask your administrator to restore it first.",
    "BlobBeingRehydrated": "is being restored from the archive. Try again in a few hours.",
    "BlobImmutableDueToPolicy": "is protected by a policy of the storage and can't be changed.",
    "BlobImmutableDueToLegalHold": "is under a legal hold and can't be changed.",
    "InvalidBlobType": "can't be replaced because of its type. Delete it first.",
    "LeaseIdMissing": "is locked by another program. Try again when that program is done.",
    "LeaseIdMismatchWithBlobOperation": "is locked by another program. Try again when that program is done.",
    "PendingCopyOperation": "is still being copied. Try again when the copy is complete.",
    "SharingViolation": "is in use by another program. Try again when that program is done.",
    "FileLockConflict": "is locked by another program. Try again when that program is done.",
    "DeletePending": "is being deleted. Try again in a moment.",
    "InvalidBlobOrBlock": "is the name of another program's unfinished upload. Choose another name.",
    "ReadOnlyAttribute": "is read-only and can't be changed.",
}
"""What prevents a change of a file, after its name, by the service's code."""


def _too_large(name: str) -> PorticoError:
    return TooLarge(f"'{name}' is too large for the storage. Upload a smaller file.")


_ERRORS: Mapping[str, Callable[[str], PorticoError]] = {
    "BlobAlreadyExists": already_exists,
    "ResourceAlreadyExists": already_exists,
    "ConditionNotMet": changed,
    "TargetConditionNotMet": changed,
    "SourceConditionNotMet": changed,
    "DirectoryIsNotEmpty": folder_not_empty,
    "DirectoryNotEmpty": folder_not_empty,
    "InvalidResourceName": invalid_name,
    "InvalidUri": invalid_name,
    "OutOfRangeInput": invalid_name,
    "InvalidFileOrDirectoryPathName": lambda name: InvalidPath(
        f"The path of '{name}' is too long for the storage. Choose shorter names."
    ),
    "RequestBodyTooLarge": _too_large,
    "BlockCountExceedsLimit": _too_large,
    "AccountLimitExceeded": lambda _: storage_full(),
    "ShareSizeLimitReached": lambda _: storage_full(),
}
"""The error for the name of a file or folder, by the service's code."""

_CURSOR_CODES = (
    "InvalidQueryParameterValue",
    "OutOfRangeQueryParameterValue",
    "OutOfRangeInput",
    "InvalidMarker",
    "InvalidContinuationToken",
)
_OTHER_PARAMETER = re.compile(rb"<QueryParameterName>(?!marker<)")
_CLOCK = re.compile(rb"date header|too old|time ?stamp", re.IGNORECASE)
_TIME_FRAME = re.compile(rb"not valid in the specified time frame|signed expiry time|signed start", re.IGNORECASE)


class ServiceError(Exception):
    """An answer of the service that is no success."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, repeated: bool = False) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.repeated = repeated
        """Whether an earlier attempt failed, which may have done its work nevertheless."""
        named = re.search(rb"<Code>(\w+)</Code>", body)
        code = headers.get("x-ms-error-code") or (named[1].decode() if named else "")
        self.code = code if re.fullmatch(r"\w{1,80}", code) else ""
        super().__init__(f"{status} {self.code}")


def may_have_succeeded(error: Exception) -> bool:
    """Whether the service may have carried out the request although it failed for us."""
    return not isinstance(error, ServiceError) or error.repeated or error.status >= 500


@contextmanager
def translated(name: str, token: str | None = None) -> Iterator[None]:
    """Turn what goes wrong inside into our errors. `token`: the marker that was sent with a listing."""
    try:
        yield
    except ServiceError as error:
        raise _meaning(error, name, token) from error
    except (AzureError, OSError) as error:
        raise _transport(error) from error


def _meaning(error: ServiceError, name: str, token: str | None) -> PorticoError:
    said = f"the service answered {error.status} {error.code}".rstrip()
    if error.status >= 500 or error.status in (408, 429):
        seconds = retry_seconds(error.headers.get("Retry-After")) or _RETRY_SECONDS
        return service_unavailable(f"{said} after all attempts", seconds)
    about_marker = error.code in _CURSOR_CODES or not error.code
    if token is not None and error.status == 400 and about_marker and not _OTHER_PARAMETER.search(error.body):
        return InvalidCursor("The storage no longer accepts this cursor. Start again without a cursor.", cause=said)
    if error.code in _CAUSES:
        return service_refused(f"{_refusal(error)} ({said})")
    if error.code in _NOT_POSSIBLE:
        return NotPossible(f"'{name}' {_NOT_POSSIBLE[error.code]}", cause=said)
    if error.code in _ERRORS:
        translation = _ERRORS[error.code](name)
        translation.cause = said
        return translation
    if error.status == 404:
        return not_found(name, cause=said)
    if error.status in (401, 403):
        return service_refused(f"the service doesn't accept the gateway's credential ({said})")
    if 300 <= error.status < 400:
        return malformed_response(f"a redirect that names no address: check account-url ({said})")
    if error.status == 412:
        return changed(name, cause=said)
    return service_failed(said)


def _refusal(error: ServiceError) -> str:
    if error.code == "AuthenticationFailed" and _TIME_FRAME.search(error.body):
        return "the SAS has expired or is not valid yet: make a new one and set sas-token"
    if error.code == "AuthenticationFailed" and _CLOCK.search(error.body):
        return "this host's clock is wrong by more than 15 minutes: set it"
    return _CAUSES[error.code]


def _transport(error: Exception) -> PorticoError:
    kind = type(error.__cause__ or error).__name__
    if isinstance(error, ClientAuthenticationError):
        return service_refused(
            "this platform has no usable identity: assign a managed or workload identity, set "
            "AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or give account-key or "
            f"sas-token ({kind})"
        )
    if isinstance(error, ServiceResponseTimeoutError | TimeoutError):
        return service_timeout(f"the service was silent past the deadline ({kind})")
    if kind in ("ClientResponseError", "BadHttpMessage"):
        return malformed_response("a response that is not HTTP")
    reached = "can't be reached" if isinstance(error, ServiceRequestError) else "broke off its response"
    hint = _HINTS.get(kind, "")
    return service_unavailable(f"the service {reached} ({kind}){hint}", _RETRY_SECONDS)


_HINTS: Mapping[str, str] = {
    "ClientConnectorDNSError": ": no such host, check the account's name in account-url",
    "ClientConnectorCertificateError": ": its certificate is not trusted on this host",
    "ClientConnectorSSLError": ": it does not speak TLS, check http:// or https:// in account-url",
}
"""Hints for errors of the transport, by class name, so that aiohttp need not be imported here."""
