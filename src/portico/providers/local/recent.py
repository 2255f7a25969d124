"""Pages that were asked for a moment ago.

Many who look at one folder look at the same page of it: a drop box that scripts poll, the first page that everybody
sees. To look at its files again is most of what such a page costs, so it is believed for a moment, if nothing that
the gateway does could make it wrong: whatever is stored, moved or deleted through the gateway changes the folder, and
with it the snapshot. What another program writes into a file in place does not; so only files count that nobody has
written to for a while, and pages without folders, whose times change with what is in them.
"""

import threading
import time
from dataclasses import dataclass

from portico import timestamps
from portico.entries import Entry, Page
from portico.providers.local.snapshots import Snapshot

BELIEVED = 1.0
"""Seconds."""
AT_REST = 10_000
"""Milliseconds since a file was written to."""
_MOST_PAGES = 64
_MOST_ENTRIES = 1000

Place = tuple[Snapshot, int, tuple[bool, str] | None]
"""Which page: of which snapshot, of what size, behind which position."""


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    entries: list[Entry]
    token: str | None


class RecentPages:
    def __init__(self) -> None:
        self._kept: dict[Place, _Kept] = {}
        self._lock = threading.Lock()

    def get(self, place: Place) -> Page | None:
        kept = self._kept.get(place)
        if kept is None:
            return None
        if time.monotonic() > kept.until:
            self._kept.pop(place, None)  # it holds a snapshot
            return None
        return Page(kept.entries.copy(), kept.token)

    def keep(self, place: Place, page: Page) -> None:
        if len(page.entries) > _MOST_ENTRIES or not _at_rest(page.entries):
            return
        now = time.monotonic()
        kept = _Kept(now + BELIEVED, page.entries.copy(), page.token)
        with self._lock:
            self._kept = {place: kept for place, kept in self._kept.items() if now <= kept.until}
            if len(self._kept) < _MOST_PAGES:
                self._kept[place] = kept


def _at_rest(entries: list[Entry]) -> bool:
    latest = timestamps.from_epoch(time.time_ns() // 1_000_000 - AT_REST)
    return all(not entry.is_folder and (entry.last_modified or latest) < latest for entry in entries)
