"""Hashing and verifying passwords: slow on purpose, in threads, with bounded concurrency."""

import asyncio
import os
import secrets
import sys
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from portico.accounts.throttle import SignInAttempt
from portico.errors import TooManyRequests, WeakPassword
from portico.fair_turns import FairTurns, Keys, NoRoom

MIN_LENGTH, MAX_LENGTH = 8, 1024  # bytes
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
QUEUE = 8
"""Jobs that may wait in each lane."""
SHARE = 3
"""Jobs of one user in the familiar lane; of one device, or one user and address, only one."""

Result = TypeVar("Result")

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
        self._familiar = FairPool("familiar-password", 1, QUEUE, limits=(SHARE, 1))

    async def hash(self, password: str) -> str:
        check_password(password)
        try:
            return await self._general.run(_NO_USER, lambda: self._hasher.hash(password))
        except NoRoom:
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
            with suppress(NoRoom):
                return await self._familiar.run((attempt.name, attempt.own) if attempt else _NO_USER, call)
        try:
            return await self._general.run((attempt.name, attempt.address) if attempt else _NO_USER, call)
        except NoRoom:
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


class FairPool:
    """A thread pool with a short queue that is fair between users: see `FairTurns`."""

    def __init__(
        self,
        name: str,
        threads: int,
        max_queued: int,
        *,
        limits: tuple[int, ...] = (),
        initializer: Callable[[], object] | None = None,
    ) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name, initializer=initializer)
        self._turns = FairTurns(threads, max_queued, limits=limits)

    @property
    def jobs(self) -> int:
        """Running and queued."""
        return self._turns.load

    async def run(self, keys: Keys, call: Callable[[], Result]) -> Result:
        turn = await self._turns.take(keys)
        try:
            job = asyncio.get_running_loop().run_in_executor(self._executor, call)
        except BaseException:
            turn.release()
            raise
        # The thread has its place until it is free, whether or not the caller still waits.
        job.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(job)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
