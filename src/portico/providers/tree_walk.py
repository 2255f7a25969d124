"""Walks: everything below a folder, page by page, to be continued by another request.

A service of folders is walked folder by folder (`folder_walk`), a store of keys by its flat listing (`key_walk`). A walk
holds one page for each level of the tree, and its token says how far it has come. Every entry that does not change
meanwhile appears exactly once, a folder before what is in it.
"""

from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec

from portico.entries import Entry
from portico.errors import InvalidCursor
from portico.paths import Path

Found = tuple[Path, Entry]
"""The path counts from the folder in which the walk began."""

T = TypeVar("T")

_PAGE = 1000


class TreeWalk(ABC):
    @abstractmethod
    async def page(self, size: int) -> list[Found]:
        """The next entries, about `size` at most; there may be none although more follow."""

    @property
    @abstractmethod
    def token(self) -> str | None:
        """Where it can be continued; None if it has come to its end."""

    async def files(self) -> AsyncIterator[list[Path]]:
        """All files from here to its end, page by page."""
        while True:
            found = await self.page(_PAGE)
            yield [path for path, entry in found if not entry.is_folder]
            if self.token is None:
                return


def encode(position: object) -> str:
    return urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def decode(token: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=kind)
    except ValueError:
        raise InvalidCursor(
            "The cursor does not belong to this search; start again without a cursor."
        ) from None
