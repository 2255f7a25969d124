"""What Azure's storage services say when something is wrong, and what that means here.

Both services answer a failure with a status and a code in `x-ms-error-code`; the text that comes with it is for
developers and stays here.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    ServiceRequestError,
    ServiceResponseTimeoutError,
)

from portico.errors import (
    AlreadyExists,
    Changed,
    FolderNotEmpty,
    InvalidCursor,
    InvalidPath,
    NotFound,
    NotPossible,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
    StorageFull,
    TooLarge,
    already_exists,
)
from portico.providers.answers import nonsense

_REFUSED = "The storage service refuses the gateway; tell the administrator."
_BUSY = "The storage service cannot be used at the moment; try again shortly."
_SILENT = "The storage service did not answer in time; try again."
_RETRY_SECONDS = 10

_KEY = "the account key or signature does not open this account: check account-url, account-key, sas-token"
_CAUSES: Mapping[str, str] = {
    "AuthenticationFailed": _KEY,
    "InvalidAuthenticationInfo": "the credential is not one that the service understands: check the sas-token or identity",
    "NoAuthenticationInformation": "the request was not signed: give account-key or sas-token, or use https with an identity",
    "AuthorizationFailure": "the credential is not let in: the account-key is not this account's, the account's firewall "
    "keeps this host out, or the SAS does not cover the container or share",
    "AuthorizationPermissionMismatch": "the identity or SAS lacks the permission for this: assign the role of the guide, "
    "or make a SAS with read, add, create, write, delete and list",
    "AuthorizationProtocolMismatch": "the SAS allows https only: change account-url to https://",
    "AuthorizationResourceTypeMismatch": "the SAS does not cover this kind of resource: make one with services, "
    "containers and objects",
    "AuthorizationServiceMismatch": "the SAS is for another service of the account",
    "AuthorizationSourceIPMismatch": "the SAS does not allow the address that the gateway calls from",
    "InsufficientAccountPermissions": "the account does not allow this operation",
    "KeyBasedAuthenticationNotPermitted": "the account has account keys turned off: use an identity, or turn them on",
    "AccountIsDisabled": "the storage account is disabled: look at the subscription",
    "ContainerNotFound": "the container does not exist: create it, or correct the option container",
    "ContainerBeingDeleted": "the container is being deleted",
    "ContainerDisabled": "the container is disabled",
    "ShareNotFound": "the share does not exist: create it, or correct the option share",
    "ShareBeingDeleted": "the share is being deleted",
    "ShareDisabled": "the share is disabled",
    "FeatureVersionMismatch": "the account is of a kind that does not support this operation",
    "BlobTypeNotSupported": "the account is of a kind that holds no block blobs",
}
"""Codes that say that the gateway, not its user, is refused: the sentence that tells what to mend."""

_SENTENCES: Mapping[str, tuple[type[PorticoError], str]] = {
    "BlobAlreadyExists": (AlreadyExists, already_exists("{name}").detail),
    "ResourceAlreadyExists": (AlreadyExists, already_exists("{name}").detail),
    "ConditionNotMet": (Changed, "'{name}' has changed meanwhile; start again."),
    "TargetConditionNotMet": (Changed, "'{name}' has changed meanwhile; start again."),
    "SourceConditionNotMet": (Changed, "'{name}' has changed meanwhile; start again."),
    "BlobArchived": (
        NotPossible,
        "'{name}' lies in the archive; it must be brought back before it can be used.",
    ),
    "BlobBeingRehydrated": (
        NotPossible,
        "'{name}' is being brought back from the archive; try again in some hours.",
    ),
    "BlobImmutableDueToPolicy": (
        NotPossible,
        "'{name}' is protected by the storage's policy and cannot be changed.",
    ),
    "BlobImmutableDueToLegalHold": (NotPossible, "'{name}' is under a legal hold and cannot be changed."),
    "InvalidBlobType": (NotPossible, "'{name}' is of a kind that cannot be replaced so; delete it first."),
    "LeaseIdMissing": (NotPossible, "'{name}' is locked by another program; try again when it is done."),
    "LeaseIdMismatchWithBlobOperation": (
        NotPossible,
        "'{name}' is locked by another program; try again when it is done.",
    ),
    "PendingCopyOperation": (NotPossible, "'{name}' is still being copied; try again when that is done."),
    "SharingViolation": (NotPossible, "'{name}' is in use by another program; try again when it is done."),
    "FileLockConflict": (NotPossible, "'{name}' is locked by another program; try again when it is done."),
    "DeletePending": (NotPossible, "'{name}' is being deleted; try again in a moment."),
    "DirectoryIsNotEmpty": (
        FolderNotEmpty,
        "'{name}' is not empty; add recursive=true to remove it with its content.",
    ),
    "DirectoryNotEmpty": (
        FolderNotEmpty,
        "'{name}' is not empty; add recursive=true to remove it with its content.",
    ),
    "InvalidBlobOrBlock": (
        NotPossible,
        "Another program's unfinished upload is in the way of '{name}'; choose another name.",
    ),
    "ReadOnlyAttribute": (NotPossible, "'{name}' is read-only and cannot be changed."),
    "InvalidResourceName": (InvalidPath, "The storage cannot hold the name '{name}'; choose another name."),
    "InvalidUri": (InvalidPath, "The storage cannot hold the name '{name}'; choose another name."),
    "OutOfRangeInput": (InvalidPath, "The storage cannot hold the name '{name}'; choose another name."),
    "InvalidFileOrDirectoryPathName": (
        InvalidPath,
        "The path of '{name}' is longer than the storage can hold; choose shorter names.",
    ),
    "RequestBodyTooLarge": (TooLarge, "'{name}' is larger than the storage can hold."),
    "BlockCountExceedsLimit": (TooLarge, "'{name}' is larger than the storage can hold."),
    "AccountLimitExceeded": (StorageFull, "The storage is full; free some space and try again."),
    "ShareSizeLimitReached": (StorageFull, "The storage is full; free some space and try again."),
}
_CURSOR_CODES = (
    "InvalidQueryParameterValue",
    "OutOfRangeQueryParameterValue",
    "OutOfRangeInput",
    "InvalidMarker",
    "InvalidContinuationToken",
)
_OTHER_PARAMETER = re.compile(rb"<QueryParameterName>(?!marker<)")
_CLOCK = re.compile(rb"date header|too old|time ?stamp", re.IGNORECASE)
_TIME_FRAME = re.compile(
    rb"not valid in the specified time frame|signed expiry time|signed start", re.IGNORECASE
)


class Fault(Exception):
    """An answer of the service that is no success."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, repeated: bool = False) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.repeated = repeated
        """Whether an earlier attempt failed, which may have done its work nevertheless."""
        code = headers.get("x-ms-error-code") or _code(body)
        self.code = code if re.fullmatch(r"\w{1,80}", code) else ""
        super().__init__(f"{status} {self.code}")


def _code(body: bytes) -> str:
    found = re.search(rb"<Code>(\w+)</Code>", body)
    return found[1].decode() if found else ""


@contextmanager
def translated(name: str, token: str | None = None) -> Iterator[None]:
    """Turn what goes wrong inside into our errors. `token`: the marker that was sent with a listing."""
    try:
        yield
    except Fault as fault:
        raise _meaning(fault, name, token) from fault
    except (AzureError, OSError) as error:
        raise _transport(error) from error


def _meaning(fault: Fault, name: str, token: str | None) -> PorticoError:
    said = f"the service answered {fault.status} {fault.code}".rstrip()
    if fault.status >= 500 or fault.status in (408, 429):
        return ProviderUnavailable(_BUSY, retry_after=_retry_after(fault), cause=f"{said}, again and again")
    if token is not None and _rejects_marker(fault):
        return InvalidCursor(
            "The storage no longer knows this cursor; start again without a cursor.", cause=said
        )
    if fault.code in _CAUSES:
        return ProviderRefused(_REFUSED, cause=f"{_refusal(fault)} ({said})")
    if fault.code in _SENTENCES:
        kind, sentence = _SENTENCES[fault.code]
        return kind(sentence.format(name=name), cause=said)
    if fault.status == 404:
        return NotFound(f"There is no '{name}'.", cause=said)
    if fault.status in (401, 403):
        return ProviderRefused(
            _REFUSED, cause=f"the service does not accept the gateway's credential ({said})"
        )
    if 300 <= fault.status < 400:
        return nonsense(f"a redirect that names no address: check account-url ({said})")
    if fault.status == 412:
        return Changed(f"'{name}' has changed meanwhile; start again.", cause=said)
    return ProviderFailed("The storage service reported an error; tell the administrator.", cause=said)


def _rejects_marker(fault: Fault) -> bool:
    """Whether this 400 is about the marker, and not about something else in the request."""
    return (
        fault.status == 400
        and (fault.code in _CURSOR_CODES or not fault.code)
        and not _OTHER_PARAMETER.search(fault.body)
    )


def _refusal(fault: Fault) -> str:
    if fault.code == "AuthenticationFailed" and _TIME_FRAME.search(fault.body):
        return "the SAS has expired or is not valid yet: make a new one and set sas-token"
    if fault.code == "AuthenticationFailed" and _CLOCK.search(fault.body):
        return "the clock of this host is wrong by more than 15 minutes: set it"
    return _CAUSES[fault.code]


def _retry_after(fault: Fault) -> int:
    text = fault.headers.get("Retry-After", "")
    return min(int(text), 300) if text.isascii() and text.isdigit() and len(text) < 6 else _RETRY_SECONDS


def _transport(error: Exception) -> PorticoError:
    kind = type(error.__cause__ or error).__name__
    if isinstance(error, ClientAuthenticationError):
        return ProviderRefused(
            _REFUSED,
            cause="no identity of this platform could be used: assign a managed or workload identity, set AZURE_CLIENT_ID, "
            f"AZURE_TENANT_ID and AZURE_CLIENT_SECRET, or give account-key or sas-token ({kind})",
        )
    if isinstance(error, ServiceResponseTimeoutError | TimeoutError):
        return ProviderTimeout(_SILENT, cause=f"the service was silent past the deadline ({kind})")
    if kind in ("ClientResponseError", "BadHttpMessage"):
        return nonsense("an answer that is no HTTP")
    reached = "cannot be reached" if isinstance(error, ServiceRequestError) else "broke off its answer"
    hint = _HINTS.get(kind, "")
    return ProviderUnavailable(
        _BUSY, retry_after=_RETRY_SECONDS, cause=f"the service {reached} ({kind}){hint}"
    )


_HINTS: Mapping[str, str] = {
    "ClientConnectorDNSError": ": no such host, check the account's name in account-url",
    "ClientConnectorCertificateError": ": its certificate is not trusted on this host",
    "ClientConnectorSSLError": ": it does not speak TLS, check http:// or https:// in account-url",
}
"""What the transport's errors mean, by their names: it is not ours to import."""
