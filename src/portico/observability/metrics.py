"""Metrics of this process, and their text form for Prometheus.

Counting is a dictionary look-up and an addition: nothing is locked, and nothing is formatted before a scrape. A process
counts on its event loop only.
"""

import fcntl
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import add
from pathlib import Path

import msgspec

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LAGS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

Labels = tuple[str | int, ...]
Numbers = list[float]
"""Of one set of labels: one number or, of a histogram, one for each bucket, one above them, and the sum."""


class Family(msgspec.Struct, frozen=True):
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: Callable[[float, float], float] = add
    """How the numbers of two workers become one."""


FAMILIES: Mapping[str, Family] = {
    "portico_request_seconds": Family(
        "histogram", "Request duration until the response was sent.", ("action", "status"), LATENCIES
    ),
    "portico_received_bytes": Family("counter", "Bytes of request bodies.", ("action",)),
    "portico_sent_bytes": Family("counter", "Bytes of responses, without their headers.", ("action",)),
    "portico_broken_answers": Family("counter", "Responses cut off by a fault in the gateway or the storage."),
    "portico_sign_ins": Family("counter", "Sign-ins with a password.", ("outcome",)),
    "portico_provider_seconds": Family(
        "histogram",
        "Calls to storage services; a write counts once for the whole upload.",
        ("connection", "kind", "call"),
        LATENCIES,
    ),
    "portico_provider_errors": Family(
        "counter", "Calls to storage services that failed.", ("connection", "kind", "call", "code")
    ),
    "portico_audit_lost_lines": Family("counter", "Audit lines that could not be written."),
    "portico_mass_changes": Family("counter", "Actors that replaced or deleted very many files."),
    "portico_audit_lines_queued": Family("gauge", "Audit lines waiting for the database."),
    "portico_event_loop_lag_seconds": Family("histogram", "Event loop lag.", (), LAGS),
    "portico_requests_in_progress": Family("gauge", "Requests being served."),
    "portico_password_checks_queued": Family("gauge", "Password checks running or queued.", ("lane",)),
    "portico_database_writers_queued": Family("gauge", "Transactions waiting for the write lock."),
    "portico_database_connections_in_use": Family("gauge", "Database connections in use."),
    "portico_database_connections_max": Family("gauge", "Maximum number of database connections in use at once."),
    "portico_upload_memory_bytes": Family("gauge", "Memory held by uploads to cloud storage."),
    "portico_uploads_waiting_for_memory": Family("gauge", "Uploads waiting for memory."),
    "portico_uploads_unfinished": Family(
        "gauge", "Resumable uploads that are neither finished nor expired, on all nodes.", merge=max
    ),
    "portico_jobs_running": Family("gauge", "Changes that continue after their request was answered."),
    "portico_workers": Family("gauge", "Processes serving requests."),
    "portico_connection_up": Family(
        "gauge", "1 if the connection worked when it was last used or checked, 0 if not.", ("connection",), merge=min
    ),
    "portico_node_info": Family("gauge", "The node and its version; always 1.", ("node", "version"), merge=max),
    "portico_ready": Family("gauge", "1 if the last check found this node ready, 0 if not.", merge=min),
    "portico_clock_offset_seconds": Family(
        "gauge", "How far the database's clock is ahead of this node's.", merge=partial(max, key=abs)
    ),
    "portico_storage_size_bytes": Family(
        "gauge", "Size of the disk of a connection of kind local.", ("connection",), merge=max
    ),
    "portico_storage_free_bytes": Family(
        "gauge", "Free space on the disk of a connection of kind local.", ("connection",), merge=min
    ),
    "portico_home_size_bytes": Family("gauge", "Size of the disk that the home folder is on.", merge=max),
    "portico_home_free_bytes": Family("gauge", "Free space on the disk that the home is on.", merge=min),
    "portico_certificate_expiry_timestamp_seconds": Family(
        "gauge", "When the certificate of server.tls expires, as Unix time.", merge=min
    ),
    "portico_last_backup_timestamp_seconds": Family(
        "gauge", "When 'portico backup' last wrote a backup, as Unix time; 0 if never.", merge=max
    ),
    "portico_sweeps_failed": Family("counter", "Failed clean-ups and periodic checks; they are retried.", ("sweep",)),
}
"""Every metric, by name. A counter's name is written with `_total` behind it."""


class Series(dict[Labels, Numbers]):
    """The numbers of one family, by their labels."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self._buckets = family.buckets
        self._size = len(family.buckets) + 2 if family.buckets else 1

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        (self.get(labels) or self._new(labels))[0] += amount

    def observe(self, labels: Labels, value: float) -> None:
        numbers = self.get(labels) or self._new(labels)
        numbers[bisect_left(self._buckets, value)] += 1
        numbers[-1] += value

    def _new(self, labels: Labels) -> Numbers:
        return self.setdefault(labels, [0] * self._size)


class MetricsSnapshot(msgspec.Struct):
    """The metrics of a process at a time of the machine's monotonic clock."""

    at: float
    totals: dict[str, list[tuple[Labels, Numbers]]]
    gauges: dict[str, list[tuple[Labels, Numbers]]]


class Metrics:
    def __init__(self) -> None:
        self._totals = {name: Series(family) for name, family in FAMILIES.items() if family.kind != "gauge"}
        self._gauges: list[tuple[str, Callable[[], Iterable[tuple[Labels, float]]]]] = []
        self.requests = self._totals["portico_request_seconds"]
        self.received = self._totals["portico_received_bytes"]
        self.sent = self._totals["portico_sent_bytes"]
        self.broken = self._totals["portico_broken_answers"]
        self.sign_ins = self._totals["portico_sign_ins"]
        self.provider_calls = self._totals["portico_provider_seconds"]
        self.provider_errors = self._totals["portico_provider_errors"]
        self.lost_audit_lines = self._totals["portico_audit_lost_lines"]
        self.mass_changes = self._totals["portico_mass_changes"]
        self.failed_sweeps = self._totals["portico_sweeps_failed"]
        self.lag = self._totals["portico_event_loop_lag_seconds"]
        self.in_progress = 0
        for series in (self.broken, self.lost_audit_lines, self.mass_changes):
            series.add((), 0)  # so that an alert sees the first increment
        self.watch("portico_requests_in_progress", lambda: self.in_progress)
        self.watch("portico_workers", lambda: 1)

    def watch(self, gauge: str, value: Callable[[], float], *labels: str) -> None:
        """Read this gauge from `value` at every scrape."""
        self.watch_all(gauge, lambda: [(labels, value())])

    def watch_all(self, gauge: str, values: Callable[[], Iterable[tuple[Labels, float]]]) -> None:
        """Read this gauge from `values` at every scrape: its labels, each with a value."""
        self._gauges.append((gauge, values))

    def snapshot(self, at: float, *, ending: bool = False) -> MetricsSnapshot:
        gauges: dict[str, list[tuple[Labels, Numbers]]] = {}
        for name, values in () if ending else self._gauges:
            gauges.setdefault(name, []).extend((labels, [float(value)]) for labels, value in values())
        return MetricsSnapshot(at, {name: list(series.items()) for name, series in self._totals.items()}, gauges)

    def carry_on(self, earlier: MetricsSnapshot) -> None:
        for name, series in self._totals.items():
            _merge(FAMILIES[name], series, earlier.totals.get(name, ()))


def render(snapshots: Iterable[MetricsSnapshot]) -> str:
    """The sum of all processes, as text."""
    merged: dict[str, dict[Labels, Numbers]] = {name: {} for name in FAMILIES}
    for snapshot in snapshots:
        for part in (snapshot.totals, snapshot.gauges):
            for name, series in part.items():
                if name in merged:
                    _merge(FAMILIES[name], merged[name], series)
    lines = []
    for name, family in FAMILIES.items():
        full = f"{name}_total" if family.kind == "counter" else name
        lines += [f"# HELP {full} {family.help}", f"# TYPE {full} {family.kind}"]
        for labels, numbers in sorted(merged[name].items(), key=lambda item: tuple(map(str, item[0]))):
            words = [f'{key}="{_escaped(str(value))}"' for key, value in zip(family.labels, labels, strict=True)]
            lines += _histogram(name, family, words, numbers) if family.buckets else [_line(full, words, numbers[0])]
    return "\n".join(lines) + "\n"


def _histogram(name: str, family: Family, words: list[str], numbers: Numbers) -> Iterable[str]:
    count = 0.0
    for bound, number in zip((*family.buckets, "+Inf"), numbers[:-1], strict=True):
        count += number
        yield _line(f"{name}_bucket", [*words, f'le="{bound}"'], count)
    yield _line(f"{name}_count", words, count)
    yield _line(f"{name}_sum", words, numbers[-1])


def _line(name: str, words: list[str], value: float) -> str:
    labels = f"{{{','.join(words)}}}" if words else ""
    return f"{name}{labels} {int(value) if value == int(value) else round(value, 6)}"


def _merge(family: Family, series: dict[Labels, Numbers], more: Iterable[tuple[Labels, Numbers]]) -> None:
    length = len(family.buckets) + 2 if family.buckets else 1
    for labels, numbers in more:
        if len(labels) != len(family.labels) or len(numbers) != length:
            continue  # written by another version
        mine = series.get(tuple(labels))
        if mine is None:
            series[tuple(labels)] = list(numbers)
        else:
            for index, number in enumerate(numbers):
                mine[index] = family.merge(mine[index], number)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


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
