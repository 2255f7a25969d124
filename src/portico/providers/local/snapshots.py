"""The names of a folder in listing order, kept while the folder does not change.

A million names must neither stall the event loop nor fill the memory, so they are never sorted in one go: they
are dealt into small buckets by a sample of themselves, each bucket is one joined string, and a bucket is sorted
when somebody first reads it.
"""

import os
import re
import sys
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

import structlog

from portico.paths import RESERVED_PREFIX, name_flaw

_SEPARATOR = "/"  # the one character besides NUL that no name on disk has
_BUCKET = 4096
_OVERSAMPLE = 8
_SUSPICIOUS = re.compile(f"[\x00-\x1f\x7f-\x9f\\\\\ud800-\udfff]|{re.escape(RESERVED_PREFIX)}")
_SETTLED = 2 * 10**9
"""Nanoseconds. A folder's mtime may be too coarse to tell two changes apart that are closer than this."""

log = structlog.get_logger()


class Names:
    """Names by code point, from any position on."""

    def __init__(self, names: list[str]) -> None:
        self._splitters: list[str] = []
        buckets = [names]
        if len(names) > 2 * _BUCKET:
            sample = sorted(islice(names, 0, None, _BUCKET // _OVERSAMPLE))
            self._splitters = sample[_OVERSAMPLE::_OVERSAMPLE]
            buckets = [[] for _ in range(len(self._splitters) + 1)]
            for name in names:
                buckets[bisect_right(self._splitters, name)].append(name)
        self._joined = [_SEPARATOR.join(bucket) for bucket in buckets]
        self._sorted = [False] * len(buckets)
        self.cost = sum(map(sys.getsizeof, self._joined)) + sum(map(sys.getsizeof, self._splitters))

    def after(self, position: str | None) -> Iterator[str]:
        """All names behind `position`, or all."""
        first = 0 if position is None else bisect_right(self._splitters, position)
        for index in range(first, len(self._joined)):
            names = self._bucket(index)
            start = bisect_right(names, position) if position is not None and index == first else 0
            yield from islice(names, start, None)

    def _bucket(self, index: int) -> list[str]:
        joined = self._joined[index]
        names = joined.split(_SEPARATOR) if joined else []
        if not self._sorted[index]:
            if _SUSPICIOUS.search(joined):
                names = _expressible(names)
            names.sort()
            self._joined[index] = _SEPARATOR.join(names)
            self._sorted[index] = True  # last: another thread may be here at the same time
        return names


def _expressible(names: list[str]) -> list[str]:
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

    def __init__(self, descriptor: int) -> None:
        self.asked_ns = time.monotonic_ns()
        taken_ns = time.time_ns()
        self._state = _state(descriptor)
        self._settled = taken_ns - self._state[-1] > _SETTLED
        folders: list[str] = []
        files: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
        self.folders = Names(folders)
        self.files = Names(files)
        self.cost = self.folders.cost + self.files.cost

    def stands(self, descriptor: int, asked_ns: int) -> bool:
        """Whether it may serve a request that came in at `asked_ns` (monotonic) for this open folder."""
        return self.asked_ns >= asked_ns or (self._settled and self._state == _state(descriptor))


def _state(descriptor: int) -> tuple[int, int]:
    info = os.fstat(descriptor)
    # mtime can be set back by anyone who may write; ctime cannot.
    return info.st_mtime_ns, max(info.st_ctime_ns, info.st_mtime_ns)


class Snapshots:
    """The last used snapshots, within a budget of memory; the newest is kept whatever it costs."""

    def __init__(self, budget: int = 128 * 2**20) -> None:
        self._budget = budget
        self._kept: OrderedDict[tuple[int, int], Snapshot] = OrderedDict()
        self._spent = 0
        self._lock = threading.Lock()

    def get(self, descriptor: int, asked_ns: int) -> Snapshot | None:
        with self._lock:
            snapshot = self._kept.get(_identity(descriptor))
            if snapshot is None or not snapshot.stands(descriptor, asked_ns):
                return None
            self._kept.move_to_end(_identity(descriptor))
            return snapshot

    def take(self, descriptor: int) -> Snapshot:
        snapshot = Snapshot(descriptor)
        identity = _identity(descriptor)
        with self._lock:
            if former := self._kept.pop(identity, None):
                self._spent -= former.cost
            self._kept[identity] = snapshot
            self._spent += snapshot.cost
            while self._spent > self._budget and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._spent -= dropped.cost
        return snapshot


def _identity(descriptor: int) -> tuple[int, int]:
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino
