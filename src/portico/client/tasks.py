"""Performs steps with asyncio, in the caller's task and in some of its own."""

import asyncio
from collections.abc import Callable
from typing import Any

from portico.client.steps import Alone, Ask, Need, Pause, Steps, T, Together, Work
from portico.client.streams import Streams


class Tasks:
    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._lock = asyncio.Lock()

    async def run(self, steps: Steps[T]) -> T:
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                need = steps.throw(error) if error else steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = error = None
            try:
                result = await self._perform(need)
            except BaseException as raised:
                error = raised

    async def _perform(self, need: Need) -> Any:
        match need:
            case Ask():
                return await self._streams.exchange(need)
            case Work(call):
                return await _finished(call)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Alone(steps):
                async with self._lock:
                    return await self.run(steps)
            case Together():
                return await self._together(need)

    async def _together(self, need: Together) -> None:
        # Not a TaskGroup: that of Python 3.11 forgets a cancellation of its caller that comes with the error of a
        # task, and leaves the caller counted as being cancelled after any error.
        tasks = [asyncio.create_task(self._labour(need)) for _ in range(need.limit)]
        if not tasks:
            return
        first: set[asyncio.Task[None]] = set()
        cancelled: asyncio.CancelledError | None = None
        try:
            first, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError as error:
            cancelled = error
        for task in tasks:
            task.cancel()
        while running := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(running)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled
        failed = [task for task in (*first, *tasks) if not task.cancelled() and task.exception()]
        if failed:
            failed[0].result()

    async def _labour(self, need: Together) -> None:
        while (steps := next(need.steps, None)) is not None:
            await self.run(steps)

    async def close(self) -> None:
        await self._streams.close()


async def _finished(call: Callable[[], Any]) -> Any:
    """Call in a thread. A call that has begun is waited for, even by who is cancelled: what it opens is then known."""
    begun = asyncio.ensure_future(asyncio.to_thread(call))
    cancelled: asyncio.CancelledError | None = None
    while not begun.done():
        try:
            await asyncio.wait({begun})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        begun.exception()  # nobody else asks for it
        raise cancelled
    return begun.result()
