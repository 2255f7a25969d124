"""Work that several ask for at the same time, done once for all of them."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Joint(Generic[Key, Result]):
    def __init__(self) -> None:
        self._open: dict[Key, asyncio.Task[Result]] = {}

    async def run(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """What `work` returns, or what the work under this key returns that is under way and not closed."""
        task = self._open.get(key)
        if task is None:
            task = self._open[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)  # one who leaves does not take the others along

    def close(self, key: Key) -> None:
        """Let nobody join any more; the work itself says so when it would be too late for whoever comes now."""
        self._open.pop(key, None)

    def close_all(self) -> None:
        self._open.clear()

    def _end(self, key: Key, task: asyncio.Task[Result]) -> None:
        if self._open.get(key) is task:
            del self._open[key]
        if not task.cancelled():
            task.exception()  # seen, even if everybody who waited for it has gone
