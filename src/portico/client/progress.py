"""How far a transfer has come."""

import threading
from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called with the path at the gateway, the bytes that are through, and all bytes if their number is known.

Called once when a transfer begins and after every chunk, from whichever thread does the work. Bytes that have to be
sent again are taken back: the number may fall. The last call says that all bytes are through and, for an upload, that
they are stored.
"""


class Meter:
    """Counts the bytes of one transfer, for several threads."""

    def __init__(self, path: str, total: int | None, progress: Progress | None) -> None:
        self._path = path
        self._progress = progress
        self._lock = threading.Lock()
        self._done = 0
        self.total = total

    def at(self, done: int) -> None:
        with self._lock:
            self._done = done
            if self._progress:
                self._progress(self._path, done, self.total)

    def add(self, count: int) -> None:
        with self._lock:
            self._done += count
            if self._progress:
                self._progress(self._path, self._done, self.total)
