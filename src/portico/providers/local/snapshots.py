"""The names of a folder in listing order, kept while the folder does not change.

A million names must neither stall the event loop nor fill the memory, and whoever asked must not wait for all of them
to be sorted. So a scan only notes the names, as text, and the few that come first; that is enough for a first page.
To go on from anywhere, the names are dealt into small buckets by a sample of themselves, and a bucket is put in order
when somebody first reads it.
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

from portico.paths import RESERVED_PREFIX, name_flaw

_SEPARATOR = "/"  # the one character besides NUL that no name on disk has
_BATCH = 4096
"""Names that are taken in, or dealt out, in one go."""
_BUCKET = 1024
_OVERSAMPLE = 8
_SUSPICIOUS = re.compile(f"[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]|{re.escape(RESERVED_PREFIX)}")
_SCANS = 3
_SETTLED = 2 * 10**9
"""Nanoseconds. A folder's mtime may be too coarse to tell two changes apart that are closer than this."""

log = structlog.get_logger()


class Names:
    """Names by code point, from any position on."""

    def __init__(self, most_at_once: int) -> None:
        self._most_at_once = most_at_once
        self._batches: list[str] = []
        self._first: list[str] = []
        """The first ones of all, more than `most_at_once` of them or every one, until the names are arranged."""
        self._bound: str | None = None
        self._sample: list[str] = []
        self._splitters: list[str] = []
        self._buckets: list[str] = []
        self._sorted: list[bool] = []
        self._arranged = False
        self._arranging = threading.Lock()

    def add(self, names: list[str]) -> None:
        """Take in a batch; not once somebody has begun to read."""
        self._batches.append(_SEPARATOR.join(names))
        self._sample += names[:: _BUCKET // _OVERSAMPLE]
        bound = self._bound
        self._first += names if bound is None else [name for name in names if name < bound]
        if len(self._first) > self._most_at_once + 2 * _BATCH:
            self._first.sort()
            del self._first[self._most_at_once + 1 :]
            self._bound = self._first[-1]

    def __bool__(self) -> bool:
        return bool(self._batches or self._buckets)

    def after(self, position: str | None, most: int) -> tuple[list[str], bool]:
        """Up to `most` names behind `position`, or from the beginning, and whether there are more behind those."""
        first, bound = self._first, self._bound
        if position is None and not self._arranged:
            names = _in_order(first)
            if len(names) > most or bound is None:
                return names[:most], len(names) > most
        self.arrange()
        found: list[str] = []
        start = 0 if position is None else bisect_right(self._splitters, position)
        for index in range(start, len(self._buckets)):
            names = self._bucket(index)
            skipped = bisect_right(names, position) if position is not None and index == start else 0
            found += names[skipped : skipped + most + 1 - len(found)]
            if len(found) > most:
                return found[:most], True
        return found, False

    def arrange(self) -> None:
        """Deal the names into buckets, if that was not done. Others may read the beginning meanwhile."""
        with self._arranging:
            if self._arranged:
                return
            sample = sorted(self._sample)
            splitters = sample[_OVERSAMPLE::_OVERSAMPLE]
            pieces: list[list[str]] = [[] for _ in range(len(splitters) + 1)]
            for batch in self._batches:
                names = sorted(batch.split(_SEPARATOR))
                start = 0
                for piece, splitter in zip(pieces, splitters, strict=False):
                    end = bisect_left(names, splitter, start)
                    if end > start:
                        piece.append(_SEPARATOR.join(names[start:end]))
                    start = end
                if start < len(names):
                    pieces[-1].append(_SEPARATOR.join(names[start:]))
            self._splitters = splitters
            self._buckets = list(map(_SEPARATOR.join, pieces))
            self._sorted = [False] * len(self._buckets)
            self._arranged = True  # last: whoever reads without the lock looks here first
            self._batches, self._first, self._sample = [], [], []

    @property
    def is_large(self) -> bool:
        """Whether it takes a while to arrange them."""
        return len(self._batches) > 1

    @property
    def cost(self) -> int:
        """Bytes of memory, about."""
        return sum(map(sys.getsizeof, self._batches or self._buckets)) + 80 * (
            len(self._first) + len(self._sample) + len(self._splitters)
        )

    def _bucket(self, index: int) -> list[str]:
        is_sorted = self._sorted[
            index
        ]  # first, and written last: another thread may be here at the same time
        joined = self._buckets[index]
        names = joined.split(_SEPARATOR) if joined else []
        if not is_sorted:
            names = _in_order(names)
            self._buckets[index] = _SEPARATOR.join(names)
            self._sorted[index] = True
        return names


def _in_order(names: list[str]) -> list[str]:
    """Once each: some file systems tell a name again that was replaced while they are read."""
    return sorted(set(_expressible(names)))


def _expressible(names: list[str]) -> list[str]:
    if not _SUSPICIOUS.search(_SEPARATOR.join(names)):
        return names
    kept = []
    for name in names:
        if flaw := name_flaw(name):
            if not name.startswith(RESERVED_PREFIX):
                log.warning("left-out-of-listing", name=ascii(name), why=f"the name {flaw}")
        else:
            kept.append(name)
    return kept


class Snapshot:
    """What a folder held at one moment: folders first, then files."""

    def __init__(self, descriptor: int, most_at_once: int) -> None:
        self.asked_ns = time.monotonic_ns()
        for _ in range(_SCANS):
            taken_ns = time.time_ns()
            self._state = _state(descriptor)
            self._settled = taken_ns - self._state[-1] > _SETTLED
            self.folders, self.files = _scan(descriptor, most_at_once)
            self.is_large = self.folders.is_large or self.files.is_large
            # Some file systems pass over a name that is replaced while they are read: a small folder is read again.
            if self.is_large or self._state == _state(descriptor):
                break
        if not self.is_large:
            self.arrange()

    @property
    def cost(self) -> int:
        return self.folders.cost + self.files.cost

    def arrange(self) -> None:
        """Do now what reading on from the first page would have to wait for."""
        self.folders.arrange()
        self.files.arrange()

    def stands(self, descriptor: int, asked_ns: int) -> bool:
        """Whether it may serve a request that came in at `asked_ns` (monotonic) for this open folder."""
        return self.asked_ns >= asked_ns or (self._settled and self._state == _state(descriptor))


def _scan(descriptor: int, most_at_once: int) -> tuple[Names, Names]:
    """The folders and the files. Links and the like are dropped when they are looked at; here it would cost more."""
    folders, files = Names(most_at_once), Names(most_at_once)
    with os.scandir(descriptor) as entries:
        while batch := list(islice(entries, _BATCH)):
            below = [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            if not below:
                files.add([entry.name for entry in batch])
                continue
            folders.add(below)
            if others := [entry.name for entry in batch if not entry.is_dir(follow_symlinks=False)]:
                files.add(others)
    return folders, files


def _state(descriptor: int) -> tuple[int, int]:
    info = os.fstat(descriptor)
    # mtime can be set back by anyone who may write; ctime cannot.
    return info.st_mtime_ns, max(info.st_ctime_ns, info.st_mtime_ns)


class Snapshots:
    """The last used snapshots, within a budget of memory; the newest is kept whatever it costs."""

    def __init__(self, most_at_once: int, budget: int = 128 * 2**20) -> None:
        self._most_at_once = most_at_once
        self._budget = budget
        self._kept: OrderedDict[tuple[int, int], tuple[Snapshot, int]] = OrderedDict()
        self._spent = 0
        self._lock = threading.Lock()

    def get(self, descriptor: int, asked_ns: int) -> Snapshot | None:
        identity = _identity(descriptor)
        with self._lock:
            snapshot, _ = self._kept.get(identity, (None, 0))
            if snapshot is None or not snapshot.stands(descriptor, asked_ns):
                return None
            self._kept.move_to_end(identity)
            return snapshot

    def take(self, descriptor: int) -> Snapshot:
        snapshot = Snapshot(descriptor, self._most_at_once)
        identity, cost = _identity(descriptor), snapshot.cost
        with self._lock:
            self._spent += cost - self._kept.pop(identity, (None, 0))[1]
            self._kept[identity] = snapshot, cost
            while self._spent > self._budget and len(self._kept) > 1:
                _, (_, freed) = self._kept.popitem(last=False)
                self._spent -= freed
        return snapshot


def _identity(descriptor: int) -> tuple[int, int]:
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino
