"""A proxy that counts the calls of a client in this process, and the round trips that it waits for one after another.

Answers arrive in waves: all of them are held until the client has nothing left to do without them. So calls that are
made at the same time are one round trip, however long each of them takes.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from portico.runtime.threads import ThreadPool

from .proxy import Call, FaultProxy, Reply

_QUIET = 8
"""Turns of the event loop in which nothing happens: data from one end of a connection reaches the other within one."""


class Work:
    """Whether the event loop has anything to do, and whatever runs in threads for it."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()
        self._looking = asyncio.Lock()
        """Two who look at the same time would each see the other at work."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        start, run = ThreadPool.start, loop.run_in_executor

        def noted(begin: Callable[..., asyncio.Future[Any]]) -> Callable[..., asyncio.Future[Any]]:
            def begun(*arguments: Any) -> asyncio.Future[Any]:
                future = begin(*arguments)
                self._running.add(future)
                future.add_done_callback(self._running.discard)
                return future

            return begun

        with patch.object(ThreadPool, "start", noted(start)), patch.object(loop, "run_in_executor", noted(run)):
            yield

    async def until_idle(self) -> None:
        """Return when this process only waits for others."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        loop: Any = asyncio.get_running_loop()
        quiet = 0
        while quiet < _QUIET:
            await asyncio.sleep(0)
            quiet = 0 if loop._ready else quiet + 1
            if self._running:
                await asyncio.wait(set(self._running), return_when=asyncio.FIRST_COMPLETED)
                quiet = 0


class RoundTrips(FaultProxy):
    """Use it as an asynchronous context; `port` is where it listens."""

    def __init__(self, port: int, work: Work) -> None:
        super().__init__(port)
        self.count = 0
        self._work = work
        self._asked = 0
        """Calls that the server has not answered."""
        self._wave: asyncio.Task[None] | None = None
        """It ends when the answers are to be delivered."""

    async def _ask(self, call: Call, headers: list[tuple[str, str]]) -> Reply:
        self._asked += 1
        if self._wave is None:
            self.count += 1
            self._wave = asyncio.create_task(self._gather())
        wave = self._wave
        try:
            reply = await super()._ask(call, headers)
        finally:
            self._asked -= 1
        await wave
        return reply

    async def at_rest(self) -> None:
        """Return when nothing is asked any more, also by what was cancelled."""
        await self._work.until_idle()
        while self._wave:
            await self._wave
            await self._work.until_idle()

    async def _gather(self) -> None:
        await self._work.until_idle()
        while self._asked:
            await asyncio.sleep(0.001)
            await self._work.until_idle()
        self._wave = None
