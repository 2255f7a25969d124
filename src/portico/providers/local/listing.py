"""Listings: folders first, then files, each ordered by name, page by page."""

import asyncio
import re
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import NamedTuple

import msgspec

from portico.model import timestamps
from portico.model.entries import Entry, Page
from portico.model.errors import InvalidCursor, not_a_folder
from portico.model.paths import Path
from portico.providers.folders import walk as folder_walk
from portico.providers.local.confined_fs import Volume, entries_of, found, opened_folder
from portico.providers.local.snapshots import FolderSnapshot, LargeFolder, SnapshotCache
from portico.providers.local.threads import Threads
from portico.runtime.processes import machine

CACHE_SECONDS = 1.0
UNCHANGED_MS = 10_000
"""Milliseconds since the last write to the folder of a cached page, and to each file in it."""
_IS_FOLDER = attrgetter("is_folder")
_LAST_MODIFIED = attrgetter("last_modified")
_MAX_PAGES = 64
_MAX_ENTRIES = 1000

Position = tuple[bool, str]
"""Of the last entry of a page: whether it is a file, and its name."""
Key = tuple[FolderSnapshot, int]
"""The snapshot and the page size."""
Part = tuple[list[Entry], Position | None]
"""The entries of a page, and its own position unless it is the last one."""

_TOKEN = re.compile("(?P<kind>[df])((?P<machine>[0-9a-f]+)-(?P<began>[0-9a-f]+)/)?(?P<name>[^/]*)")


class _Request(NamedTuple):
    folder: Path
    size: int
    position: Position | None
    arrived_ns: int
    began_ns: int | None
    """When the walk began that the request goes on with. Monotonic, as `arrived_ns`."""


class FolderListing:
    def __init__(self, threads: Threads, top: Volume, max_page_size: int) -> None:
        self._threads = threads
        self._top = top
        self._snapshots = SnapshotCache(max_page_size)
        self._pages = PageCache()
        self._arranging: set[asyncio.Task[None]] = set()

    async def page(self, folder: Path, size: int, token: str | None) -> Page:
        position, began_ns = _decode(token)
        return await self._page(folder, size, position, began_ns)

    async def page_after(self, folder: Path, position: folder_walk.Position, size: int) -> Page:
        """For walks. Any entry can be a position, so that nothing has to be read again."""
        if position.name:
            return await self._page(folder, size, (position.is_file, position.name), None)
        return await self.page(folder, size, position.token)

    async def _page(self, folder: Path, size: int, position: Position | None, began_ns: int | None) -> Page:
        request = _Request(folder, size, position, time.monotonic_ns(), began_ns)
        threads = self._threads
        part = await threads.run(threads.metadata, folder, self._quick_part, request)
        if part is None:
            scanned = await threads.run(threads.scans, folder, self._scanned_part, request)
            part, snapshot = scanned
            # Prepare for the next page while this one is sent.
            task = asyncio.create_task(threads.run(threads.scans, Path(), snapshot.arrange))
            self._arranging.add(task)
            task.add_done_callback(self._arranging.discard)
        entries, last = part
        # Without a known begin, such as after a page of another machine, the walk begins anew, from there.
        return Page(entries, last and _encode(last, request.began_ns or request.arrived_ns))

    def _quick_part(self, request: _Request) -> Part | None:
        """The page, unless a large folder must be scanned for it."""
        with self._opened(request.folder) as descriptor:
            snapshot = self._snapshots.get(descriptor, request.arrived_ns, request.began_ns)
            if snapshot is None:
                try:
                    snapshot = self._snapshots.take(descriptor, small_only=True)
                except LargeFolder:
                    return None
            return self._read(snapshot, descriptor, request)

    def _scanned_part(self, request: _Request) -> tuple[Part, FolderSnapshot]:
        with self._opened(request.folder) as descriptor:
            # Another request may have finished the same scan meanwhile.
            snapshot = self._snapshots.get(descriptor, request.arrived_ns, request.began_ns)
            snapshot = snapshot or self._snapshots.take(descriptor)
            return self._read(snapshot, descriptor, request), snapshot

    def _read(self, snapshot: FolderSnapshot, descriptor: int, request: _Request) -> Part:
        if request.position is not None:
            # Not cached: the folder may have changed since the snapshot.
            return _read_part(snapshot, descriptor, request.size, request.position)
        key = (snapshot, request.size)
        part = self._pages.get(key)
        if part is None:
            part = _read_part(snapshot, descriptor, request.size, None)
            self._pages.put(key, part)
        return part

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[int]:
        try:
            with opened_folder(self._top, folder) as descriptor:
                yield descriptor
        except NotADirectoryError:
            with found(self._top, folder):
                raise not_a_folder(folder.name) from None


def _read_part(snapshot: FolderSnapshot, descriptor: int, size: int, position: Position | None) -> Part:
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
            return entries, last
        after = None
    return entries, None


def _encode(position: Position, began_ns: int) -> str:
    """The position, and when the walk began by the clock of this machine, which all its workers share.

    No name has a slash. Where machines cannot be told apart, the token is the position only.
    """
    in_files, name = position
    walk = f"{machine()}-{began_ns:x}/" if machine() else ""
    text = f"{'f' if in_files else 'd'}{walk}{name}"
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decode(token: str | None) -> tuple[Position | None, int | None]:
    if token is None:
        return None, None
    try:
        parts = _TOKEN.fullmatch(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    except ValueError:
        parts = None
    if parts is None:
        raise InvalidCursor("The cursor doesn't belong to this folder. Start again without a cursor.")
    position = parts["kind"] == "f", parts["name"]
    return position, int(parts["began"], 16) if parts["machine"] == machine() else None


class _Cached(msgspec.Struct, frozen=True):
    expires_at: float
    entries: list[Entry]
    position: Position | None


class PageCache:
    """The first pages of the last folders, for one second.

    Most of the cost of a page is the `stat` of each file in it, and many clients ask for the first page of a folder, or
    poll it. The cache never hides a change made through the gateway: every such change changes the folder, and a changed
    folder has a new snapshot. Only a write to an existing file in place does not, so a page is cached only if none of its
    files was written to recently, nor the folder itself, and if it has no folders, whose times change with their content.
    """

    def __init__(self) -> None:
        self._pages: dict[Key, _Cached] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> Part | None:
        cached = self._pages.get(key)
        if cached is None:
            return None
        if time.monotonic() > cached.expires_at:
            self._pages.pop(key, None)  # the key holds a snapshot
            return None
        return cached.entries.copy(), cached.position

    def put(self, key: Key, part: Part) -> None:
        snapshot, _ = key
        entries, position = part
        latest_ms = time.time_ns() // 1_000_000 - UNCHANGED_MS
        # The folder's own time first: it saves looking through a page that will not be valid for long.
        if (
            len(entries) > _MAX_ENTRIES
            or snapshot.changed_ns // 1_000_000 > latest_ms
            or any(map(_IS_FOLDER, entries))
            or max(map(_LAST_MODIFIED, entries), default="") >= timestamps.from_epoch(latest_ms)
        ):
            return
        now = time.monotonic()
        new = _Cached(now + CACHE_SECONDS, entries.copy(), position)
        with self._lock:
            self._pages = {key: cached for key, cached in self._pages.items() if now <= cached.expires_at}
            if len(self._pages) < _MAX_PAGES:
                self._pages[key] = new
