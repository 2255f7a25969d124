"""Snapshots: the names of a folder in listing order, cached while the folder does not change.

A walk through the pages of a folder goes on with the names that the folder had at some moment of the walk, even if it
changes meanwhile: they include every entry that exists throughout.

A million names must neither stall the event loop nor fill the memory, and the first page must not wait until all of
them are sorted. So a scan only collects the names, as text, and the few that sort first: enough for a first page. For
later pages the names are distributed into small buckets (a sample sort), and a bucket is sorted on first use.
"""

import os
import re
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from itertools import islice

import structlog

from portico.model.paths import RESERVED_PREFIX, name_flaw

_SETTLED_NS = 2 * 10**9
"""After this time without a change, any later one gives a folder other times: FAT stores even seconds, and a file server
has a clock of its own."""


def now_ns() -> int:
    """The clock of the stamps."""
    return time.time_ns()


_SEPARATOR = "/"  # besides NUL the only character that no file name has
_BATCH = 4096
"""Names that are added, or distributed, at a time."""
_BUCKET = 1024
_OVERSAMPLE = 8
_SUSPICIOUS = re.compile(f"[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]|{re.escape(RESERVED_PREFIX)}", re.IGNORECASE)
_SCANS = 3
_BASE_COST = 2048
"""Bytes that a snapshot of an empty folder takes."""
WALK_NS = 10 * 10**9
"""Nanoseconds. A walk through a folder that changes sees its names as they were at most this long ago."""

log = structlog.get_logger()


class Names:
    """Names ordered by code point, readable from any position."""

    def __init__(self, max_page_size: int) -> None:
        self._max_page_size = max_page_size
        self._batches: list[str] = []
        self._first: list[str] = []
        """The first names in order, more than a page of them or all, until the names are arranged."""
        self._bound: str | None = None
        self._sample: list[str] = []
        self._splitters: list[str] = []
        self._buckets: list[str] = []
        self._sorted: list[bool] = []
        self._arranged = False
        self._arranging = threading.Lock()

    def add(self, names: list[str]) -> None:
        """Add a batch; not after the first `after`."""
        self._batches.append(_SEPARATOR.join(names))
        self._sample += names[:: _BUCKET // _OVERSAMPLE]
        bound = self._bound
        self._first += names if bound is None else [name for name in names if name < bound]
        if len(self._first) > self._max_page_size + 2 * _BATCH:
            self._first.sort()
            del self._first[self._max_page_size + 1 :]
            self._bound = self._first[-1]

    def __bool__(self) -> bool:
        return bool(self._batches or self._buckets)

    def after(self, position: str | None, limit: int) -> tuple[list[str], bool]:
        """Up to `limit` names behind `position`, or from the start, and whether more follow."""
        first, bound = self._first, self._bound
        if position is None and not self._arranged:
            names = _sorted_unique(first)
            if len(names) > limit or bound is None:
                return names[:limit], len(names) > limit
        self.arrange()
        found: list[str] = []
        start = 0 if position is None else bisect_right(self._splitters, position)
        for index in range(start, len(self._buckets)):
            names = self._bucket(index)
            skipped = bisect_right(names, position) if position is not None and index == start else 0
            found += names[skipped : skipped + limit + 1 - len(found)]
            if len(found) > limit:
                return found[:limit], True
        return found, False

    def arrange(self) -> None:
        """Distribute the names into buckets, once. Other threads may read the first page meanwhile."""
        with self._arranging:
            if self._arranged:
                return
            if self._bound is None:
                self._arrange_few()
                return
            sample = sorted(self._sample)
            splitters = sample[_OVERSAMPLE::_OVERSAMPLE]
            buckets: list[list[str]] = [[] for _ in range(len(splitters) + 1)]
            for batch in self._batches:
                names = sorted(batch.split(_SEPARATOR))
                start = 0
                for bucket, splitter in zip(buckets, splitters, strict=False):
                    end = bisect_left(names, splitter, start)
                    if end > start:
                        bucket.append(_SEPARATOR.join(names[start:end]))
                    start = end
                if start < len(names):
                    buckets[-1].append(_SEPARATOR.join(names[start:]))
            self._set_buckets(splitters, list(map(_SEPARATOR.join, buckets)), are_sorted=False)

    def _arrange_few(self) -> None:
        names = _sorted_unique(self._first)  # all of them
        buckets = [names[start : start + _BUCKET] for start in range(0, len(names), _BUCKET)]
        splitters = [bucket[0] for bucket in buckets[1:]]
        self._set_buckets(splitters, list(map(_SEPARATOR.join, buckets)), are_sorted=True)

    def _set_buckets(self, splitters: list[str], buckets: list[str], *, are_sorted: bool) -> None:
        self._splitters = splitters
        self._buckets = buckets
        self._sorted = [are_sorted] * len(buckets)
        self._arranged = True  # last: readers without the lock check it first
        self._batches, self._first, self._sample = [], [], []

    @property
    def is_large(self) -> bool:
        """Whether arranging them takes a while."""
        return len(self._batches) > 1

    @property
    def cost(self) -> int:
        """Approximate memory in bytes."""
        return sum(map(sys.getsizeof, self._batches or self._buckets)) + 80 * (
            len(self._first) + len(self._sample) + len(self._splitters)
        )

    def _bucket(self, index: int) -> list[str]:
        # Read first and written last: another thread may be here at the same time.
        is_sorted = self._sorted[index]
        joined = self._buckets[index]
        names = joined.split(_SEPARATOR) if joined else []
        if not is_sorted:
            names = _sorted_unique(names)
            self._buckets[index] = _SEPARATOR.join(names)
            self._sorted[index] = True
        return names


def _sorted_unique(names: list[str]) -> list[str]:
    """Sorted and unique: some file systems return a name twice if it is replaced during the scan."""
    # Sorted first: the names come in runs, which a set would lose.
    ordered = sorted(_representable(names))
    return ordered if len(set(ordered)) == len(ordered) else list(dict.fromkeys(ordered))


def _representable(names: list[str]) -> list[str]:
    text = _SEPARATOR.join(names)
    # The pattern is ten times as slow as these, and no suspicious text passes them.
    if text.isprintable() and "\\" not in text and RESERVED_PREFIX[-1] not in text:
        return names
    if not _SUSPICIOUS.search(text):
        return names
    kept = []
    for name in names:
        if flaw := name_flaw(name):
            if not name.startswith(RESERVED_PREFIX):
                log.warning("left-out-of-listing", name=ascii(name), why=f"the name {flaw}")
        else:
            kept.append(name)
    return kept


class LargeFolder(Exception):
    """Scanning the folder takes a while."""


class FolderSnapshot:
    """The names in a folder at one moment: folders and files."""

    def __init__(self, descriptor: int, max_page_size: int, *, small_only: bool = False) -> None:
        """With `small_only`, raises `LargeFolder` after the first batch of names."""
        self._seen_ns = self.scanned_ns = time.monotonic_ns()
        for _ in range(_SCANS):
            now = now_ns()  # before the state is read
            self._state = _state_of(os.fstat(descriptor))
            self._settled = now - self.changed_ns > _SETTLED_NS
            self.folders, self.files = _scan(descriptor, max_page_size, small_only)
            self.is_large = self.folders.is_large or self.files.is_large
            # Some file systems skip a name that is replaced during the scan, so a small folder is scanned again.
            if self.is_large or self._state == _state_of(os.fstat(descriptor)):
                break
        if not self.is_large:
            self.arrange()

    @property
    def changed_ns(self) -> int:
        """The time of the folder's last change."""
        return self._state[-1]

    @property
    def cost(self) -> int:
        return _BASE_COST + self.folders.cost + self.files.cost

    def arrange(self) -> None:
        """Prepare the pages after the first one."""
        self.folders.arrange()
        self.files.arrange()

    def is_current(self, info: os.stat_result, requested_ns: int) -> bool:
        """Whether these were all names at some moment after `requested_ns` (monotonic). `info`: of the folder, now."""
        if self.scanned_ns >= requested_ns:
            return True
        if not self._settled or self._state != _state_of(info):
            return False
        self._seen_ns = max(self._seen_ns, requested_ns)
        return True

    def serves_walk(self, began_ns: int) -> bool:
        """Whether these were all the names at some moment of a walk that began then, not too long ago."""
        return self._seen_ns >= began_ns and time.monotonic_ns() - self._seen_ns <= WALK_NS


def _scan(descriptor: int, max_page_size: int, small_only: bool) -> tuple[Names, Names]:
    """The names of folders and files. Links and the like are dropped by the later `stat`, which is cheaper."""
    folders, files = Names(max_page_size), Names(max_page_size)
    with os.scandir(descriptor) as entries:
        while batch := list(islice(entries, _BATCH)):
            if small_only and len(batch) == _BATCH:
                raise LargeFolder
            below = [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            if not below:
                files.add([entry.name for entry in batch])
                continue
            folders.add(below)
            if others := [entry.name for entry in batch if not entry.is_dir(follow_symlinks=False)]:
                files.add(others)
    return folders, files


def _state_of(info: os.stat_result) -> tuple[int, int]:
    # Anyone who may write can set mtime back; ctime cannot be set.
    return info.st_mtime_ns, max(info.st_ctime_ns, info.st_mtime_ns)


class SnapshotCache:
    """The most recently used snapshots, one of each folder, within a memory budget.

    The newest is kept whatever its size. Walks have none of their own: a newer snapshot serves them, too.
    """

    def __init__(self, max_page_size: int, budget: int = 128 * 2**20) -> None:
        self._max_page_size = max_page_size
        self._budget = budget
        self._snapshots: OrderedDict[tuple[int, int], tuple[FolderSnapshot, int]] = OrderedDict()
        self._spent = 0
        self._lock = threading.Lock()

    def get(self, descriptor: int, requested_ns: int, began_ns: int | None = None) -> FolderSnapshot | None:
        """A snapshot for a request that arrived at `requested_ns`, of a walk that began at `began_ns` (monotonic)."""
        info = os.fstat(descriptor)
        identity = _identity(info)
        with self._lock:
            snapshot, _ = self._snapshots.get(identity, (None, 0))
            if snapshot is None or not (
                snapshot.is_current(info, requested_ns) or (began_ns is not None and snapshot.serves_walk(began_ns))
            ):
                return None
            self._snapshots.move_to_end(identity)
            return snapshot

    def take(self, descriptor: int, *, small_only: bool = False) -> FolderSnapshot:
        """A new snapshot. With `small_only`, raises `LargeFolder` if that would take a while."""
        identity = _identity(os.fstat(descriptor))
        former, _ = self._snapshots.get(identity, (None, 0))
        if small_only and former and former.is_large:
            raise LargeFolder
        snapshot = FolderSnapshot(descriptor, self._max_page_size, small_only=small_only)
        cost = snapshot.cost
        with self._lock:
            self._spent += cost - self._snapshots.pop(identity, (None, 0))[1]
            self._snapshots[identity] = snapshot, cost
            while self._spent > self._budget and len(self._snapshots) > 1:
                _, (_, freed) = self._snapshots.popitem(last=False)
                self._spent -= freed
        return snapshot


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino
