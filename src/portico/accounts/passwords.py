"""Hashing passwords: slow on purpose, off the event loop, and never more at once than the machine can bear."""

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

from portico.errors import InvalidRequest, TooManyRequests

SHORTEST, LONGEST = 8, 1024  # bytes
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
QUEUE = 8
"""How many may wait for a place, in each lane."""

_SALT, _HASH = 16, 32
_STEPS_BACK = 10

Result = TypeVar("Result")


def check_password(password: str) -> None:
    """`InvalidRequest` unless `password` may be set."""
    encoded = _encode(password)
    if encoded is None or not SHORTEST <= len(encoded) <= LONGEST:
        raise InvalidRequest(f"A password has {SHORTEST} to {LONGEST} bytes; choose another one.")


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES, _HASH, _SALT, type=Type.ID)
        self._nobody = _unmatched_hash()
        self._general = _Lane("password", _cores(), _step_back)
        self._familiar = _Lane("familiar-password", 1)

    async def hash(self, password: str) -> str:
        check_password(password)
        return await self._general.run(lambda: self._hasher.hash(password))

    async def verify(self, hashed: str | None, password: str, *, familiar: bool = False) -> bool:
        """Whether `password` is the one behind `hashed`; with None it never is, and that takes as long to say.

        `TooManyRequests` when the lane is full. Who is `familiar` has a lane that a flood of strangers cannot fill.
        """
        encoded = _encode(password)
        if encoded is None or len(encoded) > LONGEST:
            return False
        lane = self._familiar if familiar else self._general
        matches = await lane.run(lambda: self._matches(hashed or self._nobody, encoded))
        return matches and hashed is not None

    def queued(self, *, familiar: bool) -> int:
        """How many are being verified or hashed, or wait for it, in that lane."""
        return (self._familiar if familiar else self._general).inside

    def close(self) -> None:
        self._general.close()
        self._familiar.close()

    def _matches(self, hashed: str, password: bytes) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False


class _Lane:
    def __init__(self, name: str, places: int, prepare: Callable[[], object] | None = None) -> None:
        self._threads = ThreadPoolExecutor(places, thread_name_prefix=name, initializer=prepare)
        self._most = places + QUEUE
        self.inside = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        if self.inside >= self._most:
            raise TooManyRequests(
                "Too many people are signing in at this moment; try again soon.", retry_after=2
            )
        self.inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self.inside -= 1

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def _step_back() -> None:
    """Let this thread hash in the time that all others leave: a flood of guesses must not slow the listings down."""
    if sys.platform == "linux":  # elsewhere this would mean the whole process
        with suppress(OSError):  # where a sandbox forbids it, it is only less polite
            os.nice(_STEPS_BACK)


def _unmatched_hash() -> str:
    """A hash of no password with the parameters of all others, so that refusing a stranger costs the same."""

    def text(length: int) -> str:
        return b64encode(secrets.token_bytes(length)).rstrip(b"=").decode()

    return f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${text(_SALT)}${text(_HASH)}"


def _encode(password: str) -> bytes | None:
    try:
        return password[: LONGEST + 1].encode()
    except UnicodeEncodeError:
        return None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
