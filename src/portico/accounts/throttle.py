"""Throttling of sign-ins: failures are counted in the database, so over all workers and nodes.

No account is ever locked. A stranger is refused, by address and by user name and address. A known user, by a device
or by a sign-in from the same address, is delayed instead: otherwise anybody at that address could lock the user out.

Failures that arrive during a write are written together: a flood costs one transaction after the other, not one per
guess, and each worker has at most one of them waiting for the database.
"""

import asyncio
import ipaddress
import math
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import Enum, auto
from hashlib import sha256
from typing import Final

import msgspec

from portico.accounts.names import name_key
from portico.model.errors import TooManyRequests
from portico.runtime import clock
from portico.runtime.tasks import SingleFlight
from portico.store.database import Database, Statement
from portico.store.sign_in_attempts import FAMILIAR, WINDOW, AttemptRecords, Counted

INTERVAL: Final = timedelta(seconds=5)
"""Between two delayed attempts under one key."""
MAX_WAITING: Final = 3
"""Attempts that may wait under one key, in each worker."""
MAX_WAITING_PER_USER: Final = 9
"""Attempts that may wait under all keys of one user name, in each worker."""
MAX_WAIT: Final = timedelta(seconds=20)
"""An attempt that waits longer, because other workers were always faster, is refused."""

_INTERVAL_MS = clock.milliseconds(INTERVAL)
_MAX_BUCKETS = 10_000


class QueueFull(Exception):
    """Too many wait already."""


class KeyedLock:
    """A lock for each key, with a bounded queue: first come, first served."""

    def __init__(self, max_queue: int) -> None:
        """`max_queue` counts the holder of the lock too."""
        self._max_queue = max_queue
        self._queued: Counter[bytes] = Counter()
        self._locks: dict[bytes, asyncio.Lock] = {}

    def __len__(self) -> int:
        return self._queued.total()

    @asynccontextmanager
    async def hold(self, key: bytes) -> AsyncGenerator[None]:
        if self._queued[key] >= self._max_queue:
            raise QueueFull
        self._queued[key] += 1
        try:
            async with self._locks.setdefault(key, asyncio.Lock()):
                yield
        finally:
            self._queued[key] -= 1
            if not self._queued[key]:
                del self._queued[key], self._locks[key]


class TokenBucket:
    """A token bucket for each key: a burst, then a rate per second."""

    def __init__(self, *, burst: int, rate: float) -> None:
        self._burst = burst
        self._rate = rate
        self._buckets: dict[bytes, tuple[float, float]] = {}
        """The tokens that were left, and when."""

    def take(self, key: bytes) -> bool:
        now = clock.monotonic()
        left, since = self._buckets.get(key, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            return False
        if len(self._buckets) >= _MAX_BUCKETS:
            self._forget_full_buckets(now)
        self._buckets[key] = left - 1, now
        return True

    def _forget_full_buckets(self, now: float) -> None:
        refill = self._burst / self._rate
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket[1] < refill}


class Pacing:
    """Admits one attempt per key and interval, over all workers.

    It replaces a refusal where that would let one user lock another one out: the user who knows the password gets in
    after a wait, and a guesser has one guess per interval.
    """

    def __init__(self, database: Database, records: AttemptRecords) -> None:
        self._database = database
        self._records = records
        self._lock = KeyedLock(MAX_WAITING)
        self._waiting_by_user: Counter[bytes] = Counter()

    async def wait(self, key: bytes, name: bytes) -> None:
        """Return when this attempt is admitted; `TooManyRequests` if too many wait already."""
        if self._waiting_by_user[name] >= MAX_WAITING_PER_USER:
            raise _refused()
        self._waiting_by_user[name] += 1
        until = clock.monotonic() + MAX_WAIT.total_seconds()
        try:
            async with self._lock.hold(key):
                while pause := await self.admit(key):
                    if clock.monotonic() + pause > until:
                        raise _refused()
                    await clock.sleep(pause)
        except QueueFull:
            raise _refused() from None
        finally:
            self._waiting_by_user[name] -= 1
            if not self._waiting_by_user[name]:
                del self._waiting_by_user[name]

    async def admit(self, key: bytes) -> float:
        """0 if an attempt under this key is admitted now, else the seconds until one can be."""
        counted = (await self._records.find([key])).get(key)
        if counted is None:  # cleared in the meantime
            return 0
        now = self._database.now()
        if pause := _pause(counted.admitted_at, now):
            return pause
        return 0 if await self._records.admit(key, now, _INTERVAL_MS) else INTERVAL.total_seconds()


def _pause(admitted_at: int | None, now: int) -> float:
    """Seconds. A time far in the future was written by a clock that has been corrected since."""
    if admitted_at is None or not now - _INTERVAL_MS < admitted_at <= now + _INTERVAL_MS:
        return 0
    return (admitted_at + _INTERVAL_MS - now) / 1000


def too_many_failures(wait: float) -> TooManyRequests:
    """For sign-ins."""
    return TooManyRequests(
        f"Too many failed sign-ins. Try again in {_duration(wait)}, or ask your administrator to unlock the user.",
        retry_after=math.ceil(wait),
    )


def too_many_attempts(wait: float) -> TooManyRequests:
    """For those whom no administrator can unlock: by a token, a key, an invitation or a link."""
    return TooManyRequests(
        f"Too many failed attempts from your address. Try again in {_duration(wait)}.", retry_after=math.ceil(wait)
    )


def _duration(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} seconds" if whole <= 90 else f"{math.ceil(whole / 60)} minutes"


def _refused() -> TooManyRequests:
    return too_many_failures(INTERVAL.total_seconds())


PAIR_FAILURES: Final = 10
"""Failures of one user name from one address, or from one known device, within the window."""
ADDRESS_FAILURES: Final = 50
"""Failures of all user names from one address within the window; known users are exempt."""
CREDENTIAL_FAILURES: Final = 50
"""Unknown refresh tokens, API keys, invitations and links from one address within the window, before most are refused."""
_WINDOW_MS = clock.milliseconds(WINDOW)
_FAMILIAR_MS = clock.milliseconds(FAMILIAR)


class SignInAttempt(msgspec.Struct, frozen=True):
    """One attempt to sign in, by the keys under which it is counted: hashes, so that all have the same length."""

    name: bytes
    """The user name that was given, whether or not there is such a user."""
    pair: bytes
    """That name from that address."""
    address: bytes
    device: bytes | None = None
    """The known device, if one was proved."""

    @property
    def own(self) -> bytes:
        """The narrowest key: the device, or else the pair."""
        return self.device or self.pair


def attempt_of(username: str, address: str, device: bytes | None = None) -> SignInAttempt:
    """The keys are the same for all spellings of a name and all addresses of a network."""
    return SignInAttempt(
        name=name_digest(username),
        pair=sha256(b"pair\0" + _encode(network_of(address)) + b"\0" + _name(username)).digest(),
        address=address_digest(address),
        device=None if device is None else sha256(b"device\0" + device).digest(),
    )


def name_digest(username: str) -> bytes:
    return sha256(b"name\0" + _name(username)).digest()


def address_digest(address: str) -> bytes:
    return sha256(b"address\0" + _encode(network_of(address))).digest()


def credential_digest(address: str) -> bytes:
    """The key under which unknown credentials from an address are counted."""
    return sha256(b"refresh\0" + _encode(network_of(address))).digest()


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 of one IPv6 subscriber."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False))
    return str(parsed)


def _name(username: str) -> bytes:
    return _encode(name_key(username) or username[:256])


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Treatment(Enum):
    STRANGER = auto()
    KNOWN = auto()
    DELAYED = auto()
    """Known, but with too many failures: call `Throttle.wait` before the password is verified."""


class Throttle:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._failures: Counter[tuple[bytes, bytes | None]] = Counter()
        """Not yet written, by key and user name."""
        self._counting: SingleFlight[None, None] = SingleFlight()
        self._write_lock = asyncio.Lock()
        self._records = AttemptRecords(database)
        self.sweep = self._records.sweep
        self._pacing = Pacing(database, self._records)

    async def check(self, attempt: SignInAttempt) -> Treatment:
        """The treatment of an attempt; `TooManyRequests` if it is a stranger's with too many failures."""
        now = self._database.now()
        keys = [attempt.pair, attempt.address] if attempt.device is None else [attempt.device]
        by_key = await self._records.find(keys)
        own = by_key.get(attempt.own)
        own_wait = _wait(own, PAIR_FAILURES, now)
        signed_in_at = own.succeeded_at if own else None
        if attempt.device is not None or (signed_in_at is not None and now - signed_in_at < _FAMILIAR_MS):
            return Treatment.DELAYED if own_wait else Treatment.KNOWN
        if wait := max(own_wait, _wait(by_key.get(attempt.address), ADDRESS_FAILURES, now)):
            raise too_many_failures(wait / 1000)
        return Treatment.STRANGER

    async def wait(self, attempt: SignInAttempt) -> None:
        """Delay an attempt that is `DELAYED`; `TooManyRequests` if too many wait already."""
        await self._pacing.wait(attempt.own, attempt.name)

    async def failed(self, attempt: SignInAttempt) -> None:
        """Count a failure, for all workers when this returns. A known device is counted by itself only."""
        self._failures[attempt.own, attempt.name] += 1
        if attempt.device is None:
            self._failures[attempt.address, None] += 1
        await self._counting.run(None, self._count)

    def success(self, attempt: SignInAttempt) -> Statement:
        """The statement that makes the pair familiar and clears its failures.

        The failures stay if a known device signed in: they may be someone else's.

        The address keeps its count: a guesser there may have an account of their own.
        """
        return self._records.success(attempt.pair, attempt.name, clear=attempt.device is None)

    async def credential_failed(self, address: str) -> None:
        """Count an unknown refresh token, API key, invitation or link; `TooManyRequests` if there were too many from that
        address.

        Even then one is answered every few seconds, so that a client whose session has ended learns of it.
        """
        key = credential_digest(address)
        counted = (await self._records.find([key])).get(key)
        if not _wait(counted, CREDENTIAL_FAILURES, self._database.now()):
            self._failures[key, None] += 1
            await self._counting.run(None, self._count)
        elif pause := await self._pacing.admit(key):
            raise too_many_attempts(pause)

    async def _count(self) -> None:
        async with self._write_lock:
            self._counting.forget(None)
            # Taken even if the write fails: then every caller that waits gets the error.
            failures, self._failures = self._failures, Counter()
            await self._records.count(failures)


def _wait(counted: Counted | None, limit: int, now: int) -> int:
    """Milliseconds. A count that starts far in the future was written by a clock that has been corrected since."""
    if counted is None or counted.failures < limit or abs(now - counted.since) >= _WINDOW_MS:
        return 0
    return min(_WINDOW_MS, counted.since + _WINDOW_MS - now)
