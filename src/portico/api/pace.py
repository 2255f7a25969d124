"""Large transfers work a slice at a time.

The event loop goes round: in one round everybody who has something to do does it once. With hundreds of uploads at
once a round takes a fifth of a second, and a listing, which takes some thirty rounds from its connection to its answer,
took six. So a round takes no more of them than a slice; the others come in the next ones, in their order.
"""

import asyncio
from collections import deque

SLICE = 2 * 2**20
"""Bytes of bodies that are looked at in one round: a few milliseconds."""
LEAST = SLICE // 8
"""What a turn counts at least: a file costs its time however small it is."""


class Pace:
    """One for all transfers of a worker."""

    def __init__(self) -> None:
        self._left = SLICE
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._counting = False

    async def turn(self, size: int) -> None:
        """Returns when so many bytes may be worked on; at once, unless others have taken this round."""
        if not self._counting:
            self._count()
        cost = max(size, LEAST)
        if self._left > 0 and not self._waiting:
            self._left -= cost
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((place, cost))
        await place

    def _count(self) -> None:
        """Until a round in which nobody came."""
        self._counting = True
        asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._counting = False
        self._left = SLICE
        while self._waiting and self._left > 0:
            place, cost = self._waiting.popleft()
            if not place.done():  # else whoever waited has gone
                self._left -= cost
                place.set_result(None)
        if self._left < SLICE:
            self._count()
