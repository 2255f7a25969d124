"""Taking turns at what threads do worse together than one after the other."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PATIENCE = 0.02
"""Seconds after which whoever is inside no longer keeps the next one out."""


class Turns:
    """One at a time, unless it takes long.

    To look at a thousand files is a thousand short calls, and around each of them Python's threads hand a lock to each
    other: eight pages at once take twice the work of eight pages in a row. But a disk that is slow or a server that is
    far away is waited for, not worked for, and there the next one must not queue behind it.
    """

    def __init__(self) -> None:
        self._free = True
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        await self._enter()
        turn = _Turn(self._next)
        timer = asyncio.get_running_loop().call_later(PATIENCE, turn.pass_on)
        try:
            yield
        finally:
            timer.cancel()
            turn.pass_on()

    async def _enter(self) -> None:
        if self._free:
            self._free = False
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # let in and called off at the same moment
                self._next()
            raise

    def _next(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free = True


class _Turn:
    """A turn that is passed on once: at its end, or when it gets long."""

    __slots__ = ("_next",)

    def __init__(self, next_one: Callable[[], None]) -> None:
        self._next: Callable[[], None] | None = next_one

    def pass_on(self) -> None:
        if next_one := self._next:
            self._next = None
            next_one()
