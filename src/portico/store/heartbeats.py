"""`Heartbeats`: what this process holds in the database for a limited time, renewed until it is given back or lost.

All that is held is renewed together, so that a thousand running requests cost one statement, not a thousand. A renewal is
never cancelled in the middle of a query, which would cost the pool a connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Final, Generic, TypeVar

import structlog

from portico.model.errors import PorticoError

T = TypeVar("T")

_RETRY: Final = timedelta(minutes=1)
"""The longest time after which a renewal that failed is tried again."""

log = structlog.get_logger()


class Heartbeats(Generic[T]):
    """Between `add` and `remove`, `renew` is called every `interval` with all that is held.

    It returns what is still held; the rest is lost, and not renewed any more. An error of the database is logged, and
    loses nothing.
    """

    def __init__(
        self, what: str, interval: timedelta, renew: Callable[[Sequence[T]], Awaitable[Collection[T]]]
    ) -> None:
        """`what` is for the log."""
        self._what = what
        self._interval = interval
        self._renew = renew
        self._held: set[T] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    def add(self, held: T) -> None:
        self._held.add(held)
        if self._timer is None and self._renewing is None:
            self._wait(self._interval)

    async def remove(self, held: T) -> None:
        """When this returns, no renewal of it is under way or will be."""
        self._held.discard(held)
        if self._renewing is not None:
            await asyncio.wait([self._renewing])

    def __contains__(self, held: T) -> bool:
        return held in self._held

    def _wait(self, interval: timedelta) -> None:
        # A timer, which stays for a moment when nothing is held: short requests need neither a task nor a timer each.
        self._timer = asyncio.get_running_loop().call_later(interval.total_seconds(), self._start)

    def _start(self) -> None:
        self._timer = None
        if self._held:
            self._renewing = asyncio.create_task(self._renew_all())

    async def _renew_all(self) -> None:
        interval = min(self._interval, _RETRY)
        try:
            due = list(self._held)
            kept = await self._renew(due)
            self._held.difference_update(set(due).difference(kept))
            interval = self._interval
        except PorticoError as error:
            log.warning(f"{self._what}-not-renewed", code=error.code, cause=error.cause)
        finally:
            self._renewing = None
            self._wait(interval)
