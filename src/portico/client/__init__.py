"""The Python client of a Portico gateway. It depends only on the standard library."""

from typing import TYPE_CHECKING, Any

from portico.client import errors
from portico.client.auth.tokens import Tokens, TokenStore
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.errors import *  # noqa: F403 - its `__all__` has every class
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
    "AsyncClient",
    "Client",
    "Entry",
    "Job",
    "JobProgress",
    "LinkKind",
    "LinkOptions",
    "OnConflict",
    "Progress",
    "Receipt",
    "ShareLink",
    "TokenStore",
    "Tokens",
    "TrashedItem",
    "Uploadable",
]
__all__ += errors.__all__

if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import `AsyncClient`, and asyncio with it, on first use."""
        if name == "AsyncClient":
            from portico.client.async_client import AsyncClient

            return AsyncClient
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
