"""Admission control: a bounded number of requests waits for each connection; the others are refused at once."""

from collections import Counter

from portico.errors import Unavailable

MAX_WAITING = 1000
"""Requests per worker and connection that may wait for their answer to begin. Uploads do not count: they wait for their
own clients."""


class Admission:
    """Counted per connection, so that a storage service that hangs does not hold up users of another one."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()

    def enter(self, connection: str) -> "Slot":
        if self._waiting[connection] >= MAX_WAITING:
            raise Unavailable("The gateway is overloaded at the moment; try again soon.", retry_after=1)
        self._waiting[connection] += 1
        return Slot(self._waiting, connection)


class Slot:
    """One request's place among those that wait."""

    __slots__ = ("_connection", "_waiting")

    def __init__(self, waiting: Counter[str], connection: str) -> None:
        self._waiting = waiting
        self._connection = connection

    def release(self) -> None:
        """To be called once."""
        self._waiting[self._connection] -= 1
        if not self._waiting[self._connection]:
            del self._waiting[self._connection]
