"""Traversing a tree of files and folders."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from portico.entries import Entry
from portico.errors import PorticoError
from portico.paths import Path
from portico.providers.azure_common import translated
from portico.providers.azure_files import names
from portico.providers.azure_files.listing import FolderListing
from portico.providers.azure_files.service import MAX_PAGE_SIZE, Share
from portico.providers.progress import Progress, endless

_STAGED_DEEPER = 2
"""How many levels deeper a folder in the staging folder may be."""


async def entries(share: Share, folder: Path) -> AsyncIterator[Entry]:
    """The entries that a listing of the folder shows."""
    async for page in pages(share, folder):
        for entry in page.entries:
            if names.shown(entry.name):
                yield entry


async def pages(share: Share, folder: Path, prefix: str = "") -> AsyncIterator[FolderListing]:
    """The pages of a folder with all names; none for a folder that does not exist."""
    if len(folder.segments) > names.MAX_DEPTH + _STAGED_DEEPER:
        raise endless("endlessly nested folders")
    token = None
    progress = Progress()
    while page := await share.list(folder, MAX_PAGE_SIZE, token, prefix):
        token = page.token
        progress.page([entry.name for entry in page.entries], token)
        yield page
        if token is None:
            return


@contextmanager
def counting(done: Callable[[], str], path: Path) -> Iterator[None]:
    """Add to an error how much was done before it."""
    try:
        with translated(path.name):
            yield
    except PorticoError as error:
        raise error.after(done()) from error
