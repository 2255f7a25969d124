"""The bar that a terminal shows while files are transferred."""

import os
import shutil
import sys
import threading
import time
from collections import deque
from types import TracebackType

from portico.cli.remote import units
from portico.cli.remote.tallies import Tally
from portico.cli.terminal import speaks_unicode

_INTERVAL = 0.2
_WINDOW = 10.0
"""Over how many seconds the speed is taken."""
_WIDTH = 24


class Bar:
    """Painted on standard error, if that is a terminal, by a thread of its own, and wiped away in the end."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._end = threading.Event()
        self._points: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._thread = threading.Thread(target=self._paint, daemon=True) if _is_shown(tally) else None

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

    def _paint(self) -> None:
        while not self._end.wait(_INTERVAL):
            width = shutil.get_terminal_size().columns - 1
            _write("\r\x1b[K" + self.line(time.monotonic())[:width])

    def line(self, now: float) -> str:
        tally = self._tally
        files, count = tally.state()
        speed = self._speed(now, count)
        parts = []
        if tally.whole and tally.planned_bytes:
            share = min(1.0, count / tally.planned_bytes)
            parts.append(f"{int(share * 100):3}% {_drawn(share)}")
            parts.append(f"{units.size(count)} of {units.size(tally.planned_bytes)}")
        else:
            parts.append(units.size(count))
        parts.append(f"{units.size(speed)}/s")
        if tally.whole and speed:
            parts.append(f"{units.clock(max(0, tally.planned_bytes - count) / speed)} left")
        if tally.planned > 1 or not tally.whole:
            parts.append(f"{files} of {tally.planned}{'' if tally.whole else '+'} files")
        return "  ".join(parts)

    def _speed(self, now: float, count: int) -> float:
        self._points.append((now, count))
        while len(self._points) > 2 and self._points[0][0] < now - _WINDOW:
            self._points.popleft()
        since, before = self._points[0]
        return max(0, count - before) / (now - since) if now > since else 0.0


def _is_shown(tally: Tally) -> bool:
    return sys.stderr.isatty() and not tally.quiet and os.environ.get("TERM") != "dumb"


def _drawn(share: float) -> str:
    full, empty = ("█", "░") if speaks_unicode(sys.stderr) else ("#", ".")
    return full * int(share * _WIDTH) + empty * (_WIDTH - int(share * _WIDTH))


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody is looking any more
        pass
