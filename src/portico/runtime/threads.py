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
    """The context of the request, so that log lines carry its id."""
    work: Callable[..., Any]
    args: tuple[Any, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class ThreadPool:
    """A `ThreadPoolExecutor` for the event loop only: without its second future and locks, a call costs half.

    Threads are started on demand.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._unfinished = 0
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """A future of what `work` returns. The work runs to its end even if the future is cancelled."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._unfinished += 1
        if self._unfinished > len(self._threads) < self._max_threads:
            self._start_thread()
        self._jobs.put(_Job(copy_context(), work, args, loop, future))
        return future

    def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _start_thread(self) -> None:
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
            except RuntimeError:  # the loop is closed, so nobody waits
                pass
            del job, result, error  # do not keep them alive until the next job

    def _settle(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._unfinished -= 1
        if future.done():  # cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
