"""`Batches`: what many callers have to write, written together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Batches(Generic[T]):
    """While one batch is being written, the next one gathers. A lone item is written at once."""

    def __init__(
        self,
        write: Callable[[Sequence[T]], Awaitable[Sequence[T]]],
        *,
        most: int,
        pause: float,
        retry: float,
        gather: Callable[[], float] = lambda: 0,
    ) -> None:
        """`write` returns what has to be tried again, after `retry` seconds. `most`: in a batch. `pause`: how long items that
        nobody waits for may wait for others, in seconds; `gather`: how long the others may, now."""
        self._write = write
        self._most = most
        self._pause = pause
        self._retry = retry
        self._gather = gather
        self._queue: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._urgent = asyncio.Event()
        self._idle = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: T, *, urgent: bool) -> None:
        self._queue.append(item)
        self._arrived.set()
        if urgent:
            self._urgent.set()
        self._idle.clear()
        if self._writer is None or self._writer.done():  # a bug may have ended it
            self._writer = asyncio.create_task(self._write_for_ever())

    async def close(self, seconds: float) -> Sequence[T]:
        """Write what waits; returns what was not written within this time."""
        if self._writer is not None:
            self._urgent.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            self._writer.cancel()
            await asyncio.wait({self._writer})
        left = [*self._queue]
        self._queue.clear()
        return left

    async def _write_for_ever(self) -> None:
        while True:
            await self._arrived.wait()
            if not self._urgent.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._urgent.wait()
            elif seconds := self._gather():
                await asyncio.sleep(seconds)
            self._arrived.clear()
            self._urgent.clear()
            batch = [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]
            if self._queue:
                self._arrived.set()
                self._urgent.set()
            again: Sequence[T] = batch
            try:
                again = await self._write(batch)
            finally:
                self._queue.extendleft(reversed(again))
            if again:
                self._arrived.set()
                await asyncio.sleep(self._retry)
            if not self._queue:
                self._idle.set()
