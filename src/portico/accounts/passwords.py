"""Hashing and verifying passwords: slow on purpose, in threads, with bounded concurrency."""

import asyncio
import os
import secrets
import sys
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from portico.accounts.names import name_key
from portico.accounts.throttle import SignInAttempt
from portico.model.errors import TooManyRequests, WeakPassword
from portico.runtime.fair_turns import FairTurns, Keys, NoRoom

_LOOKALIKES = str.maketrans({"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i"})
_LONGEST = 32
"""Characters. A longer password is not one of the usual ones."""
_ROWS = ("01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm")


def check_uncommon(password: str, username: str) -> None:
    """`WeakPassword` if a guesser would try this password early."""
    if is_common(password, username):
        raise WeakPassword("This password is too easy to guess. Choose another one, such as four unrelated words.")


def is_common(password: str, username: str = "") -> bool:
    text = password.casefold()
    if len(text) > _LONGEST:
        return False
    if _repeats(text) or any(text in row or text in row[::-1] for row in _ROWS):
        return True
    known = _words() | {name_key(username) or "portico"}
    return any(core in known or _halves(core) & known for core in _words_in(text))


def _words_in(text: str) -> set[str]:
    """The word in the middle, as it is and with its letters."""
    found = {"".join(char for char in text if char.isalpha()), _stripped(text), _stripped(text.translate(_LOOKALIKES))}
    plain = text.translate(_LOOKALIKES)
    found.add(_stripped(_stripped(text).translate(_LOOKALIKES)))
    found.add(plain)
    # Only digits and marks are left: 12345678 and the like have no more variety than a word.
    return {core for core in found if core} | (
        {"password"} if not any(map(str.isalpha, text)) and len(text) < 12 else set()
    )


def _stripped(text: str) -> str:
    start = next((index for index, char in enumerate(text) if char.isalpha()), len(text))
    end = next((index for index in range(len(text), 0, -1) if text[index - 1].isalpha()), 0)
    return text[start:end]


def _repeats(text: str) -> bool:
    """Whether it is one short text again and again."""
    return any(text == (text[:size] * len(text))[: len(text)] for size in range(1, min(4, len(text) // 2) + 1))


def _halves(core: str) -> set[str]:
    half = core[: len(core) // 2]
    return {half} if half and core == half + half else set()


@cache
def _words() -> frozenset[str]:
    return frozenset((files("portico.accounts") / "common_passwords.txt").read_text("utf-8").casefold().split())


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
        raise WeakPassword(f"A password must have {MIN_LENGTH} to {MAX_LENGTH} bytes. Choose another one.")


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
        self, hashed: str | None, password: str, attempt: SignInAttempt | None = None, *, familiar: bool = False
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
    return TooManyRequests("Too many people are signing in right now. Try again in a moment.", retry_after=2)


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
