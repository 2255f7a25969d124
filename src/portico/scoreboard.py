"""Where the workers of one gateway leave what each has counted, so that one of them can answer for all.

A worker holds a numbered place, by a lock that ends with the process. It writes its numbers there every second. One
that starts takes the first free place and counts on from what it finds there: so sums never fall when a worker is
replaced, and there are no more files than there were ever workers at once.
"""

import fcntl
import os
import time
from pathlib import Path

import msgspec

from portico.metrics import Metrics, Snapshot

FRESH_SECONDS = 5.0
"""Numbers older than this are of a process that has ended: its sums count, what it was doing does not."""


class Scoreboard:
    def __init__(self, folder: Path, metrics: Metrics) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._metrics = metrics
        self._lock, self._file = self._take_place()
        if earlier := _read(self._file):
            metrics.carry_on(earlier)

    def _take_place(self) -> tuple[int, Path]:
        number = 0
        while True:
            place = self._folder / f"{number}.lock"
            lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock, place.with_suffix(".json")
            except BlockingIOError:
                os.close(lock)
                number += 1

    def publish(self, *, ending: bool = False) -> Snapshot:
        snapshot = self._metrics.snapshot(time.monotonic(), ending=ending)
        draft = self._file.with_suffix(".new")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(snapshot))
        os.replace(draft, self._file)
        return snapshot

    def read(self) -> list[Snapshot]:
        """What all workers have counted. What is told was published: a successor counts on from no less."""
        try:
            found = [self.publish()]
        except OSError:  # a full disk must not hide what there is to know
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


def _read(file: Path) -> Snapshot | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Snapshot)
    except (OSError, msgspec.DecodeError):
        return None
