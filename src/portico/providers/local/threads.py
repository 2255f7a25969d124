"""The threads of one provider."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from portico.model.errors import Unavailable
from portico.model.paths import Path
from portico.providers.local.errors import translate, translated
from portico.runtime.threads import ThreadPool

CHANGES_AT_ONCE = 8


class Cancelled(Exception):
    """The work was cancelled before its end."""


class NotDone(Exception):
    """The work has changed nothing yet: something else has to be done before it is tried again."""


class CancelToken:
    """Passed to work that may take long, which calls `check` wherever it can stop safely."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self.started = False
        """Whether the work has called `check` at all. Work that is cancelled before that does nothing."""

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self) -> None:
        self.started = True
        if self._cancelled.is_set():
            raise Cancelled


T = TypeVar("T")


class Threads:
    """The thread pools of one provider. Quick work never queues behind slow work, as a listing behind uploads."""

    def __init__(self) -> None:
        self.metadata = ThreadPool(8, "local-metadata")
        self.reads = ThreadPool(8, "local-reads")
        self.writes = ThreadPool(16, "local-writes")
        self.scans = ThreadPool(2, "local-scans")
        """Reading the names of a huge folder takes a second."""
        self.changes = ThreadPool(CHANGES_AT_ONCE, "local-changes")
        """Making a folder, renaming and removing a file: quick, but for the disk, which syncs several at once."""
        self.trees = ThreadPool(4, "local-trees")
        """Copying or merging a whole tree may take minutes."""
        self.removals = ThreadPool(4, "local-removals")
        """Removing a tree frees space, so it does not wait for copies."""
        self._running: set[CancelToken] = set()

    async def run(self, pool: ThreadPool, path: Path, work: Callable[..., T], *args: Any) -> T:
        try:
            # The future has no name here: an error refers to this frame, so it would refer to itself.
            return await pool.start(work, *args)
        except OSError as error:
            raise translate(error, path) from error

    async def run_long(self, pool: ThreadPool, path: Path, work: Callable[..., T], *args: Any) -> T:
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
                "The gateway was stopped in the meantime. Check what was done, and try again.", retry_after=5
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
                    if isinstance(future.exception(), Cancelled | NotDone):
                        raise
                    return future.result(), True
        finally:
            del future  # as above

    async def close(self) -> None:
        """Cancel long work, and wait until every thread is done."""
        for token in self._running:
            token.cancel()
        for pool in (self.metadata, self.reads, self.writes, self.scans, self.changes, self.trees, self.removals):
            await asyncio.to_thread(pool.close)


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the error as retrieved: the caller may have gone."""
    if not future.cancelled():
        future.exception()


def _unless_cancelled(token: CancelToken, work: Callable[..., T], *args: Any) -> T:
    token.check()
    return work(*args)
