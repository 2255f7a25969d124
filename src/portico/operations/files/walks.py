"""Walks: a whole folder, or everything below it, page by page in one request."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from portico.drive.drive import Drive
from portico.drive.view import sort_entries
from portico.model.entries import Entry
from portico.model.paths import Path
from portico.operations.actors.request_context import Looking
from portico.operations.actors.tree import Walk

MAX_PAGE = 1000
"""Entries. A walk holds two pages at most: the one that is sent, and the one behind it."""


class WalkedPage(msgspec.Struct, frozen=True):
    groups: list[tuple[Path, list[Entry]]]
    """Entries with the folder that they are in, sorted by folder, and in each as a listing."""
    cursor: str | None
    """Where the walk can be continued behind this page; None at its end, and in folders too deep for a cursor."""
    ended: bool


NextPage = Callable[[], Awaitable[WalkedPage]]


def pages_of_folder(
    drive: Drive, folder: Path, size: int, cursor: str | None, looking: Looking, *, file_first: bool
) -> NextPage:
    """The pages that `Drive.list_page` gives."""
    size = min(size, drive.max_page_size)
    first = cursor is None

    async def next_page() -> WalkedPage:
        nonlocal cursor, first
        async with looking(size):
            page = await drive.list_page(folder, size, cursor, file_first=file_first and first)
        cursor, first = page.token, False
        return WalkedPage([(folder, page.entries)], cursor, ended=cursor is None)

    return next_page


def pages_of_tree(walk: Walk, size: int, looking: Looking) -> NextPage:
    async def next_page() -> WalkedPage:
        async with looking(size):
            found = await walk.page(size)
        return WalkedPage(_by_folder(found), walk.cursor if walk.can_pause else None, walk.ended)

    return next_page


def _by_folder(found: list[tuple[Path, Entry]]) -> list[tuple[Path, list[Entry]]]:
    groups: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for path, entry in found:
        groups[path.segments[:-1]].append(entry)
    for entries in groups.values():
        sort_entries(entries)
    return [(Path(above), groups[above]) for above in sorted(groups)]


async def read_ahead(next_page: NextPage) -> AsyncGenerator[WalkedPage]:
    """All pages. While one is sent, the one behind it is read; that ends with the generator."""
    following = asyncio.ensure_future(next_page())
    try:
        while True:
            page = await following
            if not page.ended:
                following = asyncio.ensure_future(next_page())
            yield page
            if page.ended:
                return
    finally:
        following.cancel()
        await asyncio.wait({following})
        if not following.cancelled():
            following.exception()  # nobody waits for it any more
