"""How much of an upload is gathered before a thread writes it: less, the more uploads there are."""

from collections.abc import Iterator
from contextlib import contextmanager

MOST = 2**20
"""Bytes. More would make no upload quicker."""
LEAST = 2**16
"""Bytes. Less would cost more than it saves: a chunk off the wire is not smaller while its client is quick."""


class Gathering:
    """One for all uploads to folders of a process. An upload holds about what it gathers, and as much that is being
    written."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._uploads = 0

    @contextmanager
    def upload(self) -> Iterator[None]:
        self._uploads += 1
        try:
            yield
        finally:
            self._uploads -= 1

    @property
    def enough(self) -> int:
        """Bytes that each upload gathers, at this moment."""
        return max(LEAST, min(MOST, self._budget // (2 * (self._uploads or 1))))


GATHERING = Gathering(256 * 2**20)
