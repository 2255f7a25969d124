"""Hashing passwords: slow on purpose, off the event loop, and never more at once than the machine can bear."""

import os
import secrets
import sys
from base64 import b64encode
from contextlib import suppress

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from portico.accounts.attempts import Attempt
from portico.accounts.lanes import Keys, Lane, LaneFull
from portico.errors import InvalidRequest, TooManyRequests

SHORTEST, LONGEST = 8, 1024  # bytes
MEMORY_KIB, PASSES, LANES = 19 * 1024, 2, 1
QUEUE = 8
"""How many may wait for a place, in each lane."""
SHARE = 3
"""How many sign-ins of one user may be inside the familiar lane; of one device, or one user and address, only one."""

_SALT, _HASH = 16, 32
_STEPS_BACK = 10
_OURS: Keys = (b"", b"")


def check_password(password: str) -> None:
    """`InvalidRequest` unless `password` may be set."""
    encoded = _encode(password)
    if encoded is None or not SHORTEST <= len(encoded) <= LONGEST:
        raise InvalidRequest(f"A password has {SHORTEST} to {LONGEST} bytes; choose another one.")


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(PASSES, MEMORY_KIB, LANES, _HASH, _SALT, type=Type.ID)
        self._nobody = _unmatched_hash()
        self._general = Lane("password", _cores(), QUEUE, prepare=_step_back)
        self._familiar = Lane("familiar-password", 1, QUEUE, shares=(SHARE, 1))

    async def hash(self, password: str) -> str:
        check_password(password)
        try:
            return await self._general.run(_OURS, lambda: self._hasher.hash(password))
        except LaneFull:
            raise busy() from None

    async def verify(
        self, hashed: str | None, password: str, attempt: Attempt | None = None, *, familiar: bool = False
    ) -> bool:
        """Whether `password` is the one behind `hashed`; with None it never is, and that takes as long to say.

        `TooManyRequests` when the line is full. Who is `familiar` has a lane that a flood of strangers cannot fill; where
        that is full, the general one is left.
        """
        encoded = _encode(password)
        if encoded is None or len(encoded) > LONGEST:
            return False

        def call() -> bool:
            return self._matches(hashed or self._nobody, encoded) and hashed is not None

        if familiar:
            with suppress(LaneFull):
                return await self._familiar.run((attempt.name, attempt.own) if attempt else _OURS, call)
        try:
            return await self._general.run((attempt.name, attempt.place) if attempt else _OURS, call)
        except LaneFull:
            raise busy() from None

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


def busy() -> TooManyRequests:
    return TooManyRequests("Too many people are signing in at this moment; try again soon.", retry_after=2)


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
