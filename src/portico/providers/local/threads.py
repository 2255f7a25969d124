"""Threads for blocking work, awaited from the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Job(NamedTuple):
    context: Context
    """Of the request that this is for, so that log lines tell."""
    work: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Threads:
    """A few threads, begun when there is more to do than those that are there can take.

    As a `ThreadPoolExecutor`, at half of what it costs to have something done there: only the event loop waits for
    it, so there is no second future with locks of its own.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._unfinished = 0
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """What `work` will return; it is done to its end even if nobody waits for that any more."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._unfinished += 1
        if self._unfinished > len(self._threads) < self._most:
            self._begin_thread()
        self._jobs.put(_Job(copy_context(), work, args, loop, future))
        return future

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """What `work` returns."""
        # The future has no name here: an error holds this frame, and would so hold itself, and files open.
        return await self.start(work, *args)

    def close(self) -> None:
        """Wait until all is done that was asked for."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _begin_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            try:
                result = job.context.run(job.work, *job.args)
            except BaseException as caught:
                error = caught
            try:
                job.loop.call_soon_threadsafe(self._settle, job.future, result, error)
            except RuntimeError:  # the loop has ended, and with it everybody who waited
                pass
            del job, result, error  # what it holds must not live until the next one comes

    def _settle(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._unfinished -= 1
        if future.done():  # whoever waited has gone
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
