"""Progress of running transfers, and receipts of finished ones."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from portico.client.entries import Entry

Progress = Callable[[str, int, int | None], None]
"""Called with the path on the gateway, the bytes transferred so far, and the total if it is known.

Called at the start of a transfer and after every chunk, from any thread. The number falls if bytes have to be sent again.
The last call reports that all bytes are transferred and, for an upload, stored.
"""


class Meter:
    """Counts the bytes of one transfer. Thread-safe."""

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


@dataclass(frozen=True, slots=True)
class Receipt:
    path: str
    """The requested path on the gateway."""
    entry: Entry | None = None
    """The file on the gateway, with its final name; None if the gateway did not report it."""
    local: str | None = None
    status: os.stat_result | None = None
    """The local file when it was read or written; None if a change right after might not be detectable."""
    seconds: float = 0.0
    """How long the request took."""
    stored_at: float | None = None
    """When the gateway responded to an upload, by its clock, in seconds since 1970."""
    resumed: int = 0
    """How many bytes an earlier run has transferred."""
    verified: bool = False
    """Whether the content of a download matches the digest that the gateway has recorded."""
    listed: Entry | None = None
    """The file as it was requested for a download. Its time may be that of the upload, as listings have it."""


Received = Callable[[Receipt], None]
"""Called for each file when its transfer is complete, from any thread."""

Resumed = Callable[[str, int, int], None]
"""Called with the path, the bytes that an earlier run has transferred, and the size of a file."""
