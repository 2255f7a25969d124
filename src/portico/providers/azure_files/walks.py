"""Going through a tree of files and folders."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

from portico.entries import Entry
from portico.errors import PorticoError
from portico.paths import Path
from portico.providers.azure_common import translated
from portico.providers.azure_files import names
from portico.providers.azure_files.pages import Listing
from portico.providers.azure_files.share import MOST, Share
from portico.providers.progress import Progress, endless

_STAGED_DEEPER = 2
"""Levels by which a folder on its way out lies deeper than it did."""


async def entries(share: Share, folder: Path) -> AsyncIterator[Entry]:
    """What a listing of the folder shows."""
    async for page in pages(share, folder):
        for entry in page.entries:
            if names.shown(entry.name):
                yield entry


async def pages(share: Share, folder: Path, prefix: str = "") -> AsyncIterator[Listing]:
    """What the service lists, whatever the names; nothing for a folder that is not there."""
    if len(folder.segments) > names.DEEPEST + _STAGED_DEEPER:
        raise endless("folders within folders without an end")
    token = None
    progress = Progress()
    while page := await share.list(folder, MOST, token, prefix):
        token = page.token
        progress.page([entry.name for entry in page.entries], token)
        yield page
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
