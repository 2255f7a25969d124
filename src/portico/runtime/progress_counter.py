"""`ProgressCounter`: how much of a long change is done.

It is a context variable, as the request id of the log is: providers count deep inside their loops and in threads, nothing
that they do depends on it, and most work is not counted at all.
"""

from contextvars import ContextVar

import msgspec


class ProgressCounter(msgspec.Struct):
    entries: int = 0
    """Files, and folders that were moved or removed as a whole."""
    size: int = 0
    """Their bytes, as far as they are known."""
    total: int | None = None
    """How many entries there are to be done, if somebody has counted them."""


CURRENT: ContextVar[ProgressCounter | None] = ContextVar("counter", default=None)
"""Of the work that is under way. Set by the caller that wants to know."""


def count(entries: int = 1, size: int | None = None) -> None:
    if (counter := CURRENT.get()) is not None:
        counter.entries += entries
        counter.size += size or 0
