"""The Python client of a Portico gateway. It depends only on the standard library."""

from typing import TYPE_CHECKING, Any

from portico.client.auth.tokens import Tokens, TokenStore
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.errors import (
    AddressNotAllowed,
    AlreadyExists,
    Changed,
    ChecksumMismatch,
    ClientError,
    ConnectionFailed,
    DigestMismatch,
    FolderNotEmpty,
    Forbidden,
    HeadersTooLarge,
    IdempotencyKeyReused,
    Internal,
    InvalidCursor,
    InvalidPath,
    InvalidRequest,
    IsAFolder,
    JobCancelled,
    LimitReached,
    MethodNotAllowed,
    MoreNeeded,
    NotAFolder,
    NotAGateway,
    NotFound,
    NoThumbnail,
    NotPossible,
    NotSignedIn,
    OffsetMismatch,
    ProfileUnusable,
    ProviderFailed,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
    RangeNotSatisfiable,
    RequestRunning,
    RequestTimeout,
    SignInFailed,
    SourceChanged,
    StorageFull,
    TargetGone,
    Temporary,
    TooLarge,
    TooManyRequests,
    TransfersFailed,
    TusVersion,
    Unavailable,
    Unreachable,
    UnsupportedMediaType,
    UploadTakenOver,
    UriTooLong,
    WeakPassword,
    WrongDigest,
    WrongPassword,
    WrongSize,
)
from portico.client.files import OnConflict
from portico.client.jobs import Job, JobProgress
from portico.client.shares import Access, LinkKind, LinkOptions, ShareLink
from portico.client.transfers.progress import Progress, Receipt
from portico.client.transfers.sources import Uploadable
from portico.client.trash import TrashedItem

if TYPE_CHECKING:
    from portico.client.async_client import AsyncClient

__all__ = [
    "Access",
    "AddressNotAllowed",
    "AlreadyExists",
    "AsyncClient",
    "Changed",
    "ChecksumMismatch",
    "Client",
    "ClientError",
    "ConnectionFailed",
    "DigestMismatch",
    "Entry",
    "FolderNotEmpty",
    "Forbidden",
    "HeadersTooLarge",
    "IdempotencyKeyReused",
    "Internal",
    "InvalidCursor",
    "InvalidPath",
    "InvalidRequest",
    "IsAFolder",
    "Job",
    "JobCancelled",
    "JobProgress",
    "LimitReached",
    "LinkKind",
    "LinkOptions",
    "MethodNotAllowed",
    "MoreNeeded",
    "NoThumbnail",
    "NotAFolder",
    "NotAGateway",
    "NotFound",
    "NotPossible",
    "NotSignedIn",
    "OffsetMismatch",
    "OnConflict",
    "ProfileUnusable",
    "Progress",
    "ProviderFailed",
    "ProviderRefused",
    "ProviderTimeout",
    "ProviderUnavailable",
    "RangeNotSatisfiable",
    "Receipt",
    "RequestRunning",
    "RequestTimeout",
    "ShareLink",
    "SignInFailed",
    "SourceChanged",
    "StorageFull",
    "TargetGone",
    "Temporary",
    "TokenStore",
    "Tokens",
    "TooLarge",
    "TooManyRequests",
    "TransfersFailed",
    "TrashedItem",
    "TusVersion",
    "Unavailable",
    "Unreachable",
    "UnsupportedMediaType",
    "UploadTakenOver",
    "Uploadable",
    "UriTooLong",
    "WeakPassword",
    "WrongDigest",
    "WrongPassword",
    "WrongSize",
]

if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import `AsyncClient`, and asyncio with it, on first use."""
        if name == "AsyncClient":
            from portico.client.async_client import AsyncClient

            return AsyncClient
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
