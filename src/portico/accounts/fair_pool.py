"""A thread pool with a short queue that is fair between users."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")

Keys = tuple[bytes, ...]
"""Whose work it is. Round robin goes by the first key; the number of jobs is counted under all of them."""


class PoolFull(Exception):
    """The queue is full, or the job was displaced by one of a user with fewer jobs."""


@dataclass(eq=False, slots=True)
class _Job:
    keys: Keys
    call: Callable[[], Any]
    outcome: asyncio.Future[Any]


class FairPool:
    """Runs `threads` jobs at once and queues `max_queued`, round robin by user.

    With `shares`, a key may have only so many jobs, by its position in `Keys`. When the queue is full, the last job of
    the key with the most jobs is displaced by a job of a key with fewer.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        max_queued: int,
        *,
        shares: tuple[int, ...] = (),
        initializer: Callable[[], object] | None = None,
    ) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name, initializer=initializer)
        self._threads = threads
        self._max_queued = max_queued
        self._shares = shares
        self._running: set[_Job] = set()
        self._queues: dict[bytes, deque[_Job]] = {}
        """Queued jobs by user, in round-robin order."""

    @property
    def jobs(self) -> int:
        """Running and queued."""
        return len(self._running) + sum(map(len, self._queues.values()))

    async def run(self, keys: Keys, call: Callable[[], Result]) -> Result:
        counts = Counter(key for job in (*self._running, *self._queued()) for key in {*job.keys})
        if any(counts[key] >= share for key, share in zip(keys, self._shares, strict=False)):
            raise PoolFull
        if self.jobs >= self._threads + self._max_queued:
            self._displace(counts, keys)
        job = _Job(keys, call, asyncio.get_running_loop().create_future())
        self._queues.setdefault(keys[0], deque()).append(job)
        self._start()
        try:
            result: Result = await job.outcome
            return result
        finally:
            self._remove(job)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)

    def _queued(self) -> Iterator[_Job]:
        for queue in self._queues.values():
            yield from queue

    def _displace(self, counts: Counter[bytes], keys: Keys) -> None:
        """Drop a queued job to make room for one with these keys; `PoolFull` if none has clearly more jobs."""

        def load(job: _Job) -> int:
            return max(counts[key] for key in job.keys)

        # Among equals, the last in the queue has waited least.
        heaviest = max(reversed([*self._queued()]), key=load, default=None)
        if heaviest is None or load(heaviest) <= 1 + max(counts[key] for key in keys):
            raise PoolFull
        self._remove(heaviest)
        if not heaviest.outcome.done():
            heaviest.outcome.set_exception(PoolFull())

    def _remove(self, job: _Job) -> None:
        queue = self._queues.get(job.keys[0])
        if queue is not None and job in queue:
            queue.remove(job)
            if not queue:
                del self._queues[job.keys[0]]

    def _start(self) -> None:
        while self._queues and len(self._running) < self._threads:
            user, queue = next(iter(self._queues.items()))
            job = queue.popleft()
            del self._queues[user]
            if queue:
                self._queues[user] = queue  # behind all others
            if job.outcome.done():
                continue
            self._running.add(job)
            loop = job.outcome.get_loop()

            def ended(done: Future[Any], job: _Job = job, loop: asyncio.AbstractEventLoop = loop) -> None:
                with suppress(RuntimeError):  # the loop is closed, so nobody waits
                    loop.call_soon_threadsafe(self._finish, job, done)

            self._executor.submit(job.call).add_done_callback(ended)

    def _finish(self, job: _Job, done: Future[Any]) -> None:
        """The thread is free again, whether or not the caller still waits."""
        self._running.discard(job)
        if not job.outcome.done():
            if done.cancelled():
                job.outcome.cancel()
            elif error := done.exception():
                job.outcome.set_exception(error)
            else:
                job.outcome.set_result(done.result())
        self._start()
