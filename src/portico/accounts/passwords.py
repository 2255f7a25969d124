"""Hashing and verifying passwords: slow on purpose, in threads, with bounded concurrency."""

import asyncio
import os
import secrets
import sys
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from portico.accounts.throttle import SignInAttempt
from portico.errors import TooManyRequests, WeakPassword

MIN_LENGTH, MAX_LENGTH = 8, 1024  # bytes
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
QUEUE = 8
"""Jobs that may wait in each lane."""
SHARE = 3
"""Jobs of one user in the familiar lane; of one device, or one user and address, only one."""

Result = TypeVar("Result")

Keys = tuple[bytes, ...]
"""Whose work it is. Round robin goes by the first key; the number of jobs is counted under all of them."""

_SALT, _HASH = 16, 32
_NICENESS = 10
_NO_USER: Keys = (b"", b"")


def check_password(password: str) -> None:
    """`WeakPassword` if this cannot be a password."""
    encoded = _encode(password)
    if encoded is None or not MIN_LENGTH <= len(encoded) <= MAX_LENGTH:
        raise WeakPassword(f"A password has {MIN_LENGTH} to {MAX_LENGTH} bytes; choose another one.")


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES, _HASH, _SALT, type=Type.ID)
        self._unmatched = _unmatched_hash()
        self._general = FairPool("password", _cores(), QUEUE, initializer=_lower_priority)
        self._familiar = FairPool("familiar-password", 1, QUEUE, shares=(SHARE, 1))

    async def hash(self, password: str) -> str:
        check_password(password)
        try:
            return await self._general.run(_NO_USER, lambda: self._hasher.hash(password))
        except PoolFull:
            raise busy() from None

    async def verify(
        self,
        hashed: str | None,
        password: str,
        attempt: SignInAttempt | None = None,
        *,
        familiar: bool = False,
    ) -> bool:
        """Whether `password` matches `hashed`; None never matches, in the same time.

        `TooManyRequests` if the queue is full. A `familiar` attempt has a lane that a flood of strangers cannot fill, and
        falls back to the general lane.
        """
        encoded = _encode(password)
        if encoded is None or len(encoded) > MAX_LENGTH:
            return False

        def call() -> bool:
            return self._matches(hashed or self._unmatched, encoded) and hashed is not None

        if familiar:
            with suppress(PoolFull):
                return await self._familiar.run((attempt.name, attempt.own) if attempt else _NO_USER, call)
        try:
            return await self._general.run((attempt.name, attempt.address) if attempt else _NO_USER, call)
        except PoolFull:
            raise busy() from None

    def queued(self, *, familiar: bool) -> int:
        """Running and queued jobs in that lane."""
        return (self._familiar if familiar else self._general).jobs

    def close(self) -> None:
        self._general.close()
        self._familiar.close()

    def _matches(self, hashed: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


def busy() -> TooManyRequests:
    return TooManyRequests("Too many people are signing in right now; try again soon.", retry_after=2)


def _lower_priority() -> None:
    """Lower the priority of this thread, so that a flood of guesses does not slow listings down."""
    if sys.platform == "linux":  # elsewhere `nice` is for the whole process
        with suppress(OSError):  # a sandbox may forbid it
            os.nice(_NICENESS)


def _unmatched_hash() -> str:
    """A hash that no password matches, with the same parameters, so that an unknown user costs the same."""

    def text(length: int) -> str:
        return b64encode(secrets.token_bytes(length)).rstrip(b"=").decode()

    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${text(_SALT)}${text(_HASH)}"


def _encode(password: str) -> bytes | None:
    try:
        return password[: MAX_LENGTH + 1].encode()
    except UnicodeEncodeError:
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PoolFull(Exception):
    """The queue is full, or the job was displaced by one of a user with fewer jobs."""


class _Job(msgspec.Struct, eq=False):
    keys: Keys
    call: Callable[[], Any]
    outcome: asyncio.Future[Any]


class FairPool:
    """A thread pool with a short queue that is fair between users.

    It runs `threads` jobs at once and queues `max_queued`, round robin by user.

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
