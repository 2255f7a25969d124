"""Listings: folders first, then files, each ordered by name, page by page."""

import asyncio
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from portico.entries import Entry, Page
from portico.errors import InvalidCursor, not_a_folder
from portico.paths import Path
from portico.providers import folder_walk
from portico.providers.local.confined_fs import Volume, entries_of, found, opened_folder
from portico.providers.local.page_cache import PageCache
from portico.providers.local.snapshots import FolderSnapshot, SnapshotCache
from portico.providers.local.threads import Threads

Position = tuple[bool, str]
"""Of the last entry of a page: whether it is a file, and its name."""


class FolderListing:
    def __init__(self, threads: Threads, top: Volume, max_page_size: int) -> None:
        self._threads = threads
        self._top = top
        self._snapshots = SnapshotCache(max_page_size)
        self._pages = PageCache()
        self._arranging: set[asyncio.Task[None]] = set()

    async def page(self, folder: Path, size: int, token: str | None) -> Page:
        position = _decode(token)
        requested_ns = time.monotonic_ns()
        threads = self._threads
        known = await threads.run(
            threads.metadata, folder, self._page_without_scan, folder, size, position, requested_ns
        )
        if known is not None:
            return known
        page, snapshot = await threads.run(
            threads.scans, folder, self._page, folder, size, position, requested_ns
        )
        if snapshot.is_large:
            self._arrange(snapshot)
        return page

    async def page_after(self, folder: Path, position: folder_walk.Position, size: int) -> Page:
        """For walks. A token names an entry, so that nothing has to be read again."""
        token = _encode((position.is_file, position.name)) if position.name else position.token
        return await self.page(folder, size, token)

    def _page_without_scan(
        self, folder: Path, size: int, position: Position | None, requested_ns: int
    ) -> Page | None:
        with self._opened(folder) as descriptor:
            snapshot = self._snapshots.get(descriptor, requested_ns)
            return self._cached_page(snapshot, descriptor, size, position) if snapshot else None

    def _page(
        self, folder: Path, size: int, position: Position | None, requested_ns: int
    ) -> tuple[Page, FolderSnapshot]:
        with self._opened(folder) as descriptor:
            # Another request may have finished the same scan meanwhile.
            snapshot = self._snapshots.get(descriptor, requested_ns) or self._snapshots.take(descriptor)
            return self._cached_page(snapshot, descriptor, size, position), snapshot

    def _cached_page(
        self, snapshot: FolderSnapshot, descriptor: int, size: int, position: Position | None
    ) -> Page:
        key = (snapshot, size, position)
        page = self._pages.get(key)
        if page is None:
            page = _read_page(snapshot, descriptor, size, position)
            self._pages.put(key, page)
        return page

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[int]:
        try:
            with opened_folder(self._top, folder) as descriptor:
                yield descriptor
        except NotADirectoryError:
            with found(self._top, folder):
                raise not_a_folder(folder.name) from None

    def _arrange(self, snapshot: FolderSnapshot) -> None:
        """Prepare for the next page while the first one is sent."""
        task = asyncio.create_task(self._threads.run(self._threads.scans, Path(), snapshot.arrange))
        self._arranging.add(task)
        task.add_done_callback(self._arranging.discard)


def _read_page(snapshot: FolderSnapshot, descriptor: int, size: int, position: Position | None) -> Page:
    """The `size` entries behind `position` that still exist."""
    from_files, after = position or (False, None)
    entries: list[Entry] = []
    last = (False, "")
    for in_files, names in ((False, snapshot.folders), (True, snapshot.files))[from_files:]:
        more = bool(names)
        while more and len(entries) < size:
            chosen, more = names.after(after, size - len(entries))
            if chosen:
                entries += entries_of(descriptor, chosen, folders=not in_files)
                last = (in_files, after := chosen[-1])
        if more:
            return Page(entries, _encode(last))
        after = None
    return Page(entries)


def _encode(position: Position) -> str:
    in_files, name = position
    return urlsafe_b64encode((b"f" if in_files else b"d") + name.encode()).rstrip(b"=").decode()


def _decode(token: str | None) -> Position | None:
    if token is None:
        return None
    try:
        text = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except ValueError:
        text = ""
    if text[:1] not in ("d", "f"):
        raise InvalidCursor("The cursor does not belong to this folder; start again without a cursor.")
    return text[0] == "f", text[1:]
