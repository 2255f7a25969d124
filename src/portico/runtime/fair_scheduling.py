"""Fair scheduling: large transfers take only a slice of each turn of the event loop.

In one iteration of the event loop every task that is ready runs once. With hundreds of uploads an iteration took a fifth
of a second, and a listing, which needs about thirty of them, took six seconds. So the transfers of one iteration share a
budget of bytes; the others wait for the next ones, in order.
"""

import asyncio
from collections import deque

SLICE = 2 * 2**20
"""Bytes that transfers may process in one iteration: a few milliseconds."""
LEAST = SLICE // 8
"""The least that a turn costs: even the smallest file takes time."""


class FairScheduler:
    """One for all transfers of a worker."""

    def __init__(self) -> None:
        self._left = SLICE
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._counting = False

    async def turn(self, size: int) -> None:
        """Return when `size` bytes may be processed: at once, unless this iteration's budget is used up."""
        if self.take(size):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, max(size, LEAST)))
        await place

    def take(self, size: int) -> bool:
        """Whether `size` bytes may be processed at once; if not, wait for a `turn`."""
        if not self._counting:
            self._count()
        if self._left <= 0 or self._waiting:
            return False
        self._left -= max(size, LEAST)
        return True

    def _count(self) -> None:
        """Renew the budget in every iteration, until one in which nobody asked."""
        self._counting = True
        asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._counting = False
        self._left = SLICE
        while self._waiting and self._left > 0:
            place, cost = self._waiting.popleft()
            if not place.done():  # else the waiter was cancelled
                self._left -= cost
                place.set_result(None)
        if self._left < SLICE:
            self._count()
