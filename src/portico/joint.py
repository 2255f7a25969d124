"""Work that several ask for at the same time, done once for all of them."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Joint(Generic[Key, Result]):
    def __init__(self, joinable_for: float = math.inf) -> None:
        """So many seconds after it began nobody joins any more: what is found out may be as old as that."""
        self._joinable_for = joinable_for
        self._open: dict[Key, tuple[float, asyncio.Task[Result]]] = {}
        self._running: set[asyncio.Task[Result]] = set()

    async def run(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """What `work` returns, or what the work under this key returns that is under way and may be joined."""
        now = time.monotonic()
        began, task = self._open.get(key, (-math.inf, None))
        if task is None or now - began > self._joinable_for:
            task = asyncio.create_task(work())
            self._open[key] = now, task
            self._running.add(task)
            task.add_done_callback(lambda done: self._ended(key, done))
        try:
            return await asyncio.shield(task)  # one who leaves does not take the others along
        finally:
            del task  # an error holds this frame, and would so hold itself

    def close(self, key: Key) -> None:
        """Let nobody join any more; for work that says so itself, when it would be too late for whoever comes now."""
        if (entry := self._open.get(key)) and entry[1] is asyncio.current_task():
            del self._open[key]

    def close_all(self) -> None:
        self._open.clear()

    async def end(self) -> None:
        """Break off what is under way."""
        while self._running:
            for task in self._running:
                task.cancel()
            await asyncio.wait(self._running)

    def _ended(self, key: Key, task: asyncio.Task[Result]) -> None:
        self._running.discard(task)
        if (entry := self._open.get(key)) and entry[1] is task:
            del self._open[key]
        if not task.cancelled():
            task.exception()  # seen, even if everybody who waited for it has gone
