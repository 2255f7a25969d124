"""Page cache: the last pages, for one second.

Most of the cost of a page is the `stat` of each file in it, and many clients ask for the same page: the first one of
a folder, or a folder that scripts poll. The cache never hides a change made through the gateway: every such change
changes the folder, and a changed folder has a new snapshot. Only a write to an existing file in place does not, so a
page is cached only if none of its files was written to recently, and if it has no folders, whose times change with
their content.
"""

import threading
import time
from dataclasses import dataclass

from portico import timestamps
from portico.entries import Entry
from portico.providers.local.snapshots import FolderSnapshot

CACHE_SECONDS = 1.0
UNCHANGED_MS = 10_000
"""Milliseconds since the last write to a file of a cached page."""
_MAX_PAGES = 64
_MAX_ENTRIES = 1000

Position = tuple[bool, str]
"""Of the last entry of a page: whether it is a file, and its name."""
Key = tuple[FolderSnapshot, int, Position | None]
"""The snapshot, the page size, and the position that the page begins behind."""
Part = tuple[list[Entry], Position | None]
"""The entries of a page, and its own position unless it is the last one."""


@dataclass(frozen=True, slots=True)
class _Cached:
    expires_at: float
    entries: list[Entry]
    position: Position | None


class PageCache:
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
        entries, position = part
        if len(entries) > _MAX_ENTRIES or not _is_unchanged(entries):
            return
        now = time.monotonic()
        new = _Cached(now + CACHE_SECONDS, entries.copy(), position)
        with self._lock:
            self._pages = {key: cached for key, cached in self._pages.items() if now <= cached.expires_at}
            if len(self._pages) < _MAX_PAGES:
                self._pages[key] = new


def _is_unchanged(entries: list[Entry]) -> bool:
    latest = timestamps.from_epoch(time.time_ns() // 1_000_000 - UNCHANGED_MS)
    return all(not entry.is_folder and (entry.last_modified or latest) < latest for entry in entries)
