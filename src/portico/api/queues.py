"""How many may wait for one storage: to say no at once is better than to say yes too late."""

from collections import Counter

from starlette.requests import Request

from portico.errors import Unavailable

MOST_WAITING = 1000
"""Requests of a worker that wait for one connection until their answer begins. Uploads do not count: they wait at the
pace of their own clients."""


class Queues:
    """By connection, so that a service that hangs holds up nobody who uses another."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()

    def enter(self, request: Request, connection: str) -> None:
        """Counts until `leave`."""
        if self._waiting[connection] >= MOST_WAITING:
            raise Unavailable(
                "The gateway has more to do than it can at the moment; try again soon.", retry_after=1
            )
        self._waiting[connection] += 1
        request.scope["state"]["waits_for"] = (self, connection)

    def _left(self, connection: str) -> None:
        self._waiting[connection] -= 1
        if not self._waiting[connection]:
            del self._waiting[connection]


def leave(state: dict[str, object]) -> None:
    """The request has its answer, or never will."""
    match state.pop("waits_for", None):
        case (Queues() as queues, str() as connection):
            queues._left(connection)
