"""Metrics files of the workers of one gateway, so that one worker can answer a scrape for all.

A worker holds a numbered file, by a lock that ends with the process, and writes its metrics there every second. A new
worker takes the first free file and continues its totals: so sums never decrease when a worker is replaced, and there
are never more files than workers at the same time.
"""

import fcntl
import os
import time
from pathlib import Path

import msgspec

from portico.metrics import Metrics, MetricsSnapshot

FRESH_SECONDS = 5.0
"""Metrics older than this belong to a process that has ended: its totals count, its gauges do not."""


class WorkerMetrics:
    def __init__(self, folder: Path, metrics: Metrics) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._metrics = metrics
        self._lock, self._file = self._lock_free_slot()
        if earlier := _read(self._file):
            metrics.carry_on(earlier)

    def _lock_free_slot(self) -> tuple[int, Path]:
        number = 0
        while True:
            lock_file = self._folder / f"{number}.lock"
            lock = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock, lock_file.with_suffix(".json")
            except BlockingIOError:
                os.close(lock)
                number += 1

    def publish(self, *, ending: bool = False) -> MetricsSnapshot:
        snapshot = self._metrics.snapshot(time.monotonic(), ending=ending)
        draft = self._file.with_suffix(".new")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(snapshot))
        os.replace(draft, self._file)
        return snapshot

    def read(self) -> list[MetricsSnapshot]:
        """The metrics of all workers. Everything returned was published, so a successor continues from no less."""
        try:
            found = [self.publish()]
        except OSError:  # a full disk must not hide the metrics
            found = [self._metrics.snapshot(time.monotonic())]
        for file in sorted(self._folder.glob("*.json")):
            if file != self._file and (other := _read(file)):
                if abs(time.monotonic() - other.at) > FRESH_SECONDS:
                    other.gauges = {}
                found.append(other)
        return found

    def close(self) -> None:
        try:
            self.publish(ending=True)
        finally:
            os.close(self._lock)


def _read(file: Path) -> MetricsSnapshot | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=MetricsSnapshot)
    except (OSError, msgspec.DecodeError):
        return None
