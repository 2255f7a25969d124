"""Tasks of the event loop: calls that several callers share, and many small tasks, a few at a time."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

CONCURRENCY = 8
"""How many files of a tree are worked on at the same time."""


async def nothing() -> None:
    """Instead of work that is not needed."""


async def for_each(work: Callable[[T], Awaitable[object]], items: Iterable[T], concurrency: int = CONCURRENCY) -> None:
    """Call `work` for every item, with at most `concurrency` calls at a time.

    After a failure no further call begins. The first failure is raised once the running calls have ended. A
    cancellation cancels them.
    """
    remaining = iter(items)
    failed = False

    async def worker() -> None:
        nonlocal failed
        for item in remaining:
            if failed:
                return
            try:
                await work(item)
            except BaseException:
                failed = True
                raise

    for error in await asyncio.gather(*(worker() for _ in range(concurrency)), return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end, even if the caller is cancelled; the cancellation is raised after that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    task.exception()  # retrieved, so that nothing is logged
    raise cancelled


def abandon(task: asyncio.Task[Any]) -> None:
    """Cancel a task whose result no longer matters, and log nothing of it."""
    task.cancel()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, however deeply nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error


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
