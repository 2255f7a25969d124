"""Page cache: the first pages of the last folders, for one second.

Most of the cost of a page is the `stat` of each file in it, and many clients ask for the first page of a folder, or
poll it. The cache never hides a change made through the gateway: every such change changes the folder, and a changed
folder has a new snapshot. Only a write to an existing file in place does not, so a page is cached only if none of its
files was written to recently, nor the folder itself, and if it has no folders, whose times change with their content.
"""

import threading
import time
from dataclasses import dataclass
from operator import attrgetter

from portico import timestamps
from portico.entries import Entry
from portico.providers.local.snapshots import FolderSnapshot

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
        snapshot, _ = key
        entries, position = part
        latest_ms = time.time_ns() // 1_000_000 - UNCHANGED_MS
        # The folder's own time first: it saves looking through a page that will not be valid for long.
        if (
            len(entries) > _MAX_ENTRIES
            or snapshot.changed_ns // 1_000_000 > latest_ms
            or not _are_unchanged(entries, latest_ms)
        ):
            return
        now = time.monotonic()
        new = _Cached(now + CACHE_SECONDS, entries.copy(), position)
        with self._lock:
            self._pages = {key: cached for key, cached in self._pages.items() if now <= cached.expires_at}
            if len(self._pages) < _MAX_PAGES:
                self._pages[key] = new


def _are_unchanged(entries: list[Entry], latest_ms: int) -> bool:
    latest = timestamps.from_epoch(latest_ms)
    return not any(map(_IS_FOLDER, entries)) and max(map(_LAST_MODIFIED, entries), default="") < latest
