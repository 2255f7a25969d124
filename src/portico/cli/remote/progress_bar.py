"""The progress bar of transfers."""

import os
import shutil
import sys
import threading
import time
from collections import deque
from types import TracebackType

from portico.cli.remote import units
from portico.cli.remote.report import Report
from portico.cli.terminal import speaks_unicode

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
        self._thread = threading.Thread(target=self._draw, daemon=True) if _is_shown(report) else None

    def __enter__(self) -> None:
        if self._thread:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread:
            self._end.set()
            self._thread.join()
            _write("\r\x1b[K")

    def _draw(self) -> None:
        while not self._end.wait(_INTERVAL_SECONDS):
            width = shutil.get_terminal_size().columns - 1
            _write("\r\x1b[K" + self.line(time.monotonic())[:width])

    def line(self, now: float) -> str:
        report = self._report
        files, count = report.state()
        speed = self._speed(now, report.moved_bytes)
        parts = []
        if report.whole and report.planned_bytes:
            share = min(1.0, count / report.planned_bytes)
            parts.append(f"{int(share * 100):3}% {_blocks(share)}")
            parts.append(f"{units.size(count)} of {units.size(report.planned_bytes)}")
        else:
            parts.append(units.size(count))
        parts.append(f"{units.size(speed)}/s")
        if report.whole and speed:
            parts.append(f"{units.clock(max(0, report.planned_bytes - count) / speed)} left")
        if report.planned > 1 or not report.whole:
            parts.append(f"{files} of {report.planned}{'' if report.whole else '+'} files")
        return "  ".join(parts)

    def _speed(self, now: float, count: int) -> float:
        self._points.append((now, count))
        while len(self._points) > 2 and self._points[0][0] < now - _WINDOW_SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        return max(0, count - before) / (now - since) if now > since else 0.0


def _is_shown(report: Report) -> bool:
    return sys.stderr.isatty() and not report.quiet and os.environ.get("TERM") != "dumb"


def _blocks(share: float) -> str:
    full, empty = ("█", "░") if speaks_unicode(sys.stderr) else ("#", ".")
    return full * int(share * _WIDTH) + empty * (_WIDTH - int(share * _WIDTH))


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # the terminal is gone
        pass
