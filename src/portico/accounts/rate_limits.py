"""Limits on how fast and how many at once, each by key."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from sqlalchemy import or_, select, update

from portico import clock
from portico.errors import TooManyRequests
from portico.store.database import Database
from portico.store.tables import attempts

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
        """Take a token, if there is one."""
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

    def __init__(self, database: Database) -> None:
        self._database = database
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
        query = select(attempts.c.admitted_at).where(attempts.c.digest == key)
        row = await self._database.first(query)
        if row is None:  # cleared meanwhile
            return 0
        now = self._database.now()
        if pause := _pause(row.admitted_at, now):
            return pause
        last = attempts.c.admitted_at
        due = or_(last.is_(None), last <= now - _INTERVAL_MS, last > now + _INTERVAL_MS)
        statement = update(attempts).where(attempts.c.digest == key, due).values(admitted_at=now)
        admitted = await self._database.execute(statement)
        return 0 if admitted else INTERVAL.total_seconds()


def _pause(admitted_at: int | None, now: int) -> float:
    """Seconds. A time far in the future was written by a clock that has been corrected since."""
    if admitted_at is None or not now - _INTERVAL_MS < admitted_at <= now + _INTERVAL_MS:
        return 0
    return (admitted_at + _INTERVAL_MS - now) / 1000


def too_many_failures(wait: float) -> TooManyRequests:
    """For sign-ins."""
    return TooManyRequests(
        f"Too many sign-ins have failed; try again in {_duration(wait)}, or ask the administrator to unlock the user.",
        retry_after=math.ceil(wait),
    )


def too_many_attempts(wait: float) -> TooManyRequests:
    """For those whom no administrator can unlock: by a token, a key, an invitation or a link."""
    return TooManyRequests(
        f"Too many attempts from your address have failed; try again in {_duration(wait)}.",
        retry_after=math.ceil(wait),
    )


def _duration(seconds: float) -> str:
    whole = math.ceil(seconds)
    return f"{whole} seconds" if whole <= 90 else f"{math.ceil(whole / 60)} minutes"


def _refused() -> TooManyRequests:
    return too_many_failures(INTERVAL.total_seconds())
