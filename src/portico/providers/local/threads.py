"""Threads for blocking work, awaited from the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from portico.errors import Unavailable
from portico.paths import Path
from portico.providers.local.cancellation import Cancelled, CancelToken
from portico.providers.local.errors import translate, translated

T = TypeVar("T")


class Threads:
    """The thread pools of one provider, one for each kind of work.

    Quick work never queues behind slow work: when hundreds of uploads wait for the disk, a listing does not.
    """

    def __init__(self) -> None:
        self.metadata = ThreadPool(8, "local-metadata")
        self.reads = ThreadPool(8, "local-reads")
        self.writes = ThreadPool(16, "local-writes")
        self.scans = ThreadPool(2, "local-scans")
        """Reading the names of a huge folder takes a second."""
        self.changes = ThreadPool(4, "local-changes")
        """Making a folder, renaming and removing a file: quick."""
        self.trees = ThreadPool(4, "local-trees")
        """Copying or merging a whole tree may take minutes."""
        self.removals = ThreadPool(4, "local-removals")
        """Removing a tree frees space, so it does not wait for copies."""
        self._running: set[CancelToken] = set()

    async def run(self, pool: "ThreadPool", path: Path, work: Callable[..., T], *args: Any) -> T:
        """Run blocking work about `path` in a thread."""
        try:
            # The future has no name here: an error refers to this frame, so it would refer to itself.
            return await pool.start(work, *args)
        except OSError as error:
            raise translate(error, path) from error

    async def run_long(self, pool: "ThreadPool", path: Path, work: Callable[..., T], *args: Any) -> T:
        """Run work that may take long. It gets a `CancelToken`, which is cancelled with this call."""
        token = CancelToken()
        self._running.add(token)
        future = pool.start(work, token, *args)
        future.add_done_callback(_retrieve)
        try:
            with translated(path):
                return await asyncio.shield(future)
        except Cancelled:
            raise Unavailable(
                "The gateway was stopped meanwhile; check what was done, and try again.", retry_after=5
            ) from None
        except asyncio.CancelledError:
            token.cancel()
            if token.started:  # the thread still holds files
                await asyncio.wait([future])
            raise
        finally:
            self._running.discard(token)
            del future  # an error refers to this frame

    async def run_change(self, path: Path, work: Callable[..., T], *args: Any) -> tuple[T, bool]:
        """Run a quick change; returns its result and whether this call was cancelled meanwhile.

        A thread that has started is waited for, and what it did counts: a cancellation means that nothing was done.
        """
        token = CancelToken()
        future = self.changes.start(_unless_cancelled, token, work, *args)
        future.add_done_callback(_retrieve)
        try:
            with translated(path):
                try:
                    return await asyncio.shield(future), False
                except asyncio.CancelledError:
                    token.cancel()
                    if not token.started:
                        raise
                    await asyncio.wait([future])
                    if isinstance(future.exception(), Cancelled):
                        raise
                    return future.result(), True
        finally:
            del future  # as above

    async def close(self) -> None:
        """Cancel long work, and wait until every thread is done."""
        for token in self._running:
            token.cancel()
        for pool in (
            self.metadata,
            self.reads,
            self.writes,
            self.scans,
            self.changes,
            self.trees,
            self.removals,
        ):
            await asyncio.to_thread(pool.close)


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
        """Wait until all work is done."""
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


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the error as retrieved: the caller may have gone."""
    if not future.cancelled():
        future.exception()


def _unless_cancelled(token: CancelToken, work: Callable[..., T], *args: Any) -> T:
    token.check()
    return work(*args)
