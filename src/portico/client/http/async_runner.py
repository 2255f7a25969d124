"""Runs operations with asyncio, in the caller's task and in worker tasks."""

import asyncio
from collections.abc import Callable
from typing import Any

from portico.client.http.async_pool import AsyncPool
from portico.client.http.effects import Blocking, Concurrently, Effect, Exclusive, Operation, Request, Sleep, T


class AsyncRunner:
    def __init__(self, pool: AsyncPool) -> None:
        self._pool = pool
        self._lock = asyncio.Lock()

    async def run(self, operation: Operation[T]) -> T:
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = operation.throw(error) if error else operation.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = error = None
            try:
                result = await self._perform(effect)
            except BaseException as raised:
                error = raised

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Request():
                return await self._pool.exchange(effect)
            case Blocking(call):
                return await _in_thread(call)
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Exclusive(operation):
                async with self._lock:
                    return await self.run(operation)
            case Concurrently():
                return await self._run_concurrently(effect)

    async def _run_concurrently(self, effect: Concurrently) -> None:
        # Not a TaskGroup: in Python 3.11 it loses a cancellation of its caller that arrives together with a task's
        # error, and leaves the caller's cancellation count raised after any error.
        tasks = [asyncio.create_task(self._work(effect)) for _ in range(effect.limit)]
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

    async def _work(self, effect: Concurrently) -> None:
        while (operation := next(effect.operations, None)) is not None:
            await self.run(operation)


async def _in_thread(call: Callable[[], Any]) -> Any:
    """Run a call in a thread. A cancelled caller waits for it to finish, so that what it opens can be closed."""
    future = asyncio.ensure_future(asyncio.to_thread(call))
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        future.exception()  # mark it as retrieved
        raise cancelled
    return future.result()
