"""Single flight: concurrent callers share one call."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class SingleFlight(Generic[Key, Result]):
    """Shares calls by key."""

    def __init__(self, shared_for: float = math.inf) -> None:
        """`shared_for`: how long a running call can be joined, in seconds; its result may be that old."""
        self._shared_for = shared_for
        self._calls: dict[Key, tuple[float, asyncio.Task[Result]]] = {}
        self._running: set[asyncio.Task[Result]] = set()

    async def run(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of `work`, or of a running call with the same key."""
        now = time.monotonic()
        started, task = self._calls.get(key, (-math.inf, None))
        if task is None or now - started > self._shared_for:
            task = asyncio.create_task(work())
            self._calls[key] = now, task
            self._running.add(task)
            task.add_done_callback(lambda done: self._finish(key, done))
        try:
            return await asyncio.shield(task)  # a cancelled caller does not cancel the others
        finally:
            del task  # an error refers to this frame, so it would refer to itself

    def forget(self, key: Key) -> None:
        """Let later callers start a new call. The work calls this when its result would be too old for them."""
        if (entry := self._calls.get(key)) and entry[1] is asyncio.current_task():
            del self._calls[key]

    def forget_all(self) -> None:
        self._calls.clear()

    async def cancel(self) -> None:
        """Cancel all running calls."""
        while self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)

    def _finish(self, key: Key, task: asyncio.Task[Result]) -> None:
        self._running.discard(task)
        if (entry := self._calls.get(key)) and entry[1] is task:
            del self._calls[key]
        if not task.cancelled():
            task.exception()  # mark it as retrieved: every caller may have gone
