"""Counts and failures of a transfer command, collected by many threads and printed at the end."""

import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TypeVar

from portico.cli.console.exits import DONE, Missing, UsageMistake
from portico.cli.console.terminal import draw, draws, notice, speaks_unicode
from portico.cli.remote import values
from portico.cli.remote.command import common_code, sentence
from portico.client.errors import ClientError
from portico.model.visible_text import visible

T = TypeVar("T")


class Halt(Exception):
    """An error occurred, and the command stops at the first one."""


def bare(etag: str | None) -> str | None:
    """An ETag without the quotes that it has in headers."""
    return etag and etag.strip('"')


class Report:
    def __init__(self, done: str, options: SimpleNamespace) -> None:
        """`done` is the past participle for the summary, such as `uploaded`."""
        self.done_word = done
        self._reports_twice = done == "uploaded"
        """Whether the end is reported twice: when all is sent, and when it is stored."""
        self.quiet: bool = options.quiet
        self.goes_on: bool = options.goes_on
        self.dry: bool = options.dry_run
        self.no_clobber: bool = options.no_clobber
        self.planned = 0
        self.planned_bytes = 0
        self.whole = False
        """Whether the plan is complete."""
        self.begun = 0
        self.skipped = 0
        """How many files need no transfer."""
        self.deleted = 0
        self.failures: dict[str, Exception] = {}
        self.started = time.monotonic()
        self._lock = threading.Lock()
        self._finished = 0
        self._finished_bytes = 0
        self._running: dict[str, tuple[int, int | None]] = {}
        self._resumed: dict[str, int] = {}
        """What earlier runs have transferred of files."""

    def plan(self, size: int) -> None:
        self.planned += 1
        self.planned_bytes += size

    def fail(self, path: str, error: Exception) -> None:
        """Record an error; raises `Halt` unless the command continues after errors."""
        self.failures[path] = error
        if not self.goes_on:
            raise Halt

    def collected(self, sources: Iterable[str], look: Callable[[str], Iterable[T]]) -> list[T]:
        """What the sources on the command line are, all looked at before the first transfer."""
        found: list[T] = []
        for source in sources:
            try:
                found += look(source)
            except (ClientError, Missing, UsageMistake, OSError) as error:
                if not self.goes_on:
                    raise
                self.failures[source] = error
        return found

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def resume(self, path: str, done: int, size: int) -> None:
        """Note that an earlier run has transferred a part of a file."""
        with self._lock:
            # Both at once, so that it never counts as sent now.
            self._resumed[path] = done
            self._running[path] = (done, size)
        if not self.quiet:
            notice(f"Resuming {visible(path.rpartition('/')[2])} at {done * 100 // size} %")

    def progress(self, path: str, done: int, total: int | None) -> None:
        """Update the progress of a file. Small files report only once, when they are complete."""
        with self._lock:
            known = self._running.pop(path, None)
            if done < self._resumed.get(path, 0):
                self._resumed[path] = done  # it was begun anew
            if done != total or (known and self._reports_twice):
                self._running[path] = (done, total)
            else:
                self._finished += 1
                self._finished_bytes += done

    def state(self) -> tuple[int, int]:
        with self._lock:
            running = self._running.values()
            files = self._finished + sum(1 for done, total in running if done == total)
            return files, self._finished_bytes + sum(done for done, _ in running)

    def is_half_done(self, size: int) -> bool:
        """Whether a file larger than `size` was begun and is not complete."""
        with self._lock:
            return any(0 < done < (total or 0) > size for done, total in self._running.values())

    @property
    def moved_bytes(self) -> int:
        """How many bytes this run has transferred, without what earlier runs have sent of the files."""
        _, count = self.state()
        with self._lock:
            return max(0, count - sum(self._resumed.values()))

    def finish(self) -> int:
        for path, error in self.failures.items():
            text = sentence(error)
            named = (isinstance(error, OSError) and error.filename) or path in text
            print(visible(text if named else f"{path}: {text}", lines=True), file=sys.stderr)
        if not self.quiet:
            print(self._summary(), file=sys.stderr, flush=True)
        return common_code(self.failures) if self.failures else DONE

    def _summary(self) -> str:
        done = f"would be {self.done_word}" if self.dry else self.done_word
        files = f"{self.planned if self.dry else self.begun} {done}"
        deleted = "would be deleted" if self.dry else "deleted"
        counts = {"skipped": self.skipped, deleted: self.deleted, "failed": len(self.failures)}
        parts = [files, *(f"{count} {word}" for word, count in counts.items() if count)]
        if self.dry:
            return f"{', '.join(parts)}, {values.size(self.planned_bytes)}"
        span = values.span(time.monotonic() - self.started)
        return f"{', '.join(parts)}, {values.size(self.moved_bytes)} in {span}"


_INTERVAL_SECONDS = 0.2
_WINDOW_SECONDS = 10.0
"""The period over which the speed is averaged, in seconds."""
_WIDTH = 24


class ProgressBar:
    """Drawn on standard error by a thread, if that is a terminal, and erased at the end."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._end = threading.Event()
        self._points: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._thread = threading.Thread(target=self._draw, daemon=True) if draws() and not report.quiet else None

    def __enter__(self) -> None:
        if self._thread:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread:
            self._end.set()
            self._thread.join()
            draw("")

    def _draw(self) -> None:
        while not self._end.wait(_INTERVAL_SECONDS):
            width = shutil.get_terminal_size().columns - 1
            draw(self.line(time.monotonic())[:width])

    def line(self, now: float) -> str:
        report = self._report
        files, count = report.state()
        speed = self._speed(now, report.moved_bytes)
        parts = []
        if report.whole and report.planned_bytes:
            share = min(1.0, count / report.planned_bytes)
            parts.append(f"{int(share * 100):3}% {_blocks(share)}")
            parts.append(f"{values.size(count)} of {values.size(report.planned_bytes)}")
        else:
            parts.append(values.size(count))
        parts.append(f"{values.size(speed)}/s")
        if report.whole and speed:
            parts.append(f"{values.clock(max(0, report.planned_bytes - count) / speed)} left")
        if report.planned > 1 or not report.whole:
            parts.append(f"{files} of {report.planned}{'' if report.whole else '+'} files")
        return "  ".join(parts)

    def _speed(self, now: float, count: int) -> float:
        self._points.append((now, count))
        while len(self._points) > 2 and self._points[0][0] < now - _WINDOW_SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        return max(0, count - before) / (now - since) if now > since else 0.0


def _blocks(share: float) -> str:
    full, empty = ("█", "░") if speaks_unicode(sys.stderr) else ("#", ".")
    return full * int(share * _WIDTH) + empty * (_WIDTH - int(share * _WIDTH))
