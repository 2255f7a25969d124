"""Going through a tree of files and folders."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from portico.entries import Entry
from portico.errors import PorticoError
from portico.paths import Path
from portico.providers.azure_common import translated
from portico.providers.azure_files import names
from portico.providers.azure_files.pages import Listing
from portico.providers.azure_files.share import MOST, Share

T = TypeVar("T")

_AT_ONCE = 8
"""Files of a tree that are worked on at the same time."""


async def entries(share: Share, folder: Path) -> AsyncIterator[Entry]:
    """What a listing of the folder shows."""
    async for page in pages(share, folder):
        for entry in page.entries:
            if names.shown(entry.name):
                yield entry


async def pages(share: Share, folder: Path) -> AsyncIterator[Listing]:
    """What the service lists, whatever the names; nothing for a folder that is not there."""
    token = None
    while page := await share.list(folder, MOST, token):
        yield page
        token = page.token
        if token is None:
            return


@contextmanager
def counting(done: Callable[[], str], path: Path) -> Iterator[None]:
    """Let an error say how much was done before it."""
    try:
        with translated(path.name):
            yield
    except PorticoError as error:
        raise error.after(done()) from error


async def each(work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Do the work for all, a few at a time; the first failure is raised when what runs has ended."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    for error in await asyncio.gather(*(worker() for _ in range(_AT_ONCE)), return_exceptions=True):
        if isinstance(error, BaseException):
            raise error
