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
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Executable,
    Integer,
    LargeBinary,
    case,
    delete,
    func,
    literal_column,
    or_,
    select,
    update,
)

from portico.accounts.names import name_key
from portico.model.errors import TooManyRequests
from portico.runtime import clock
from portico.runtime.tasks import SingleFlight
from portico.store.database import SWEEP_WAIT, AnyRow, Database, upsert
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


if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

WINDOW: Final = timedelta(minutes=15)
"""Failures are counted for this long from the first one; then the count starts again."""
PAIR_FAILURES: Final = 10
"""Failures of one user name from one address, or from one known device, within the window."""
ADDRESS_FAILURES: Final = 50
"""Failures of all user names from one address within the window; known users are exempt."""
CREDENTIAL_FAILURES: Final = 50
"""Unknown refresh tokens, API keys, invitations and links from one address within the window, before most are refused."""
FAMILIAR: Final = timedelta(days=90)
"""How long a pair of user and address is familiar after its last sign-in."""
MAX_PAIRS: Final = 100
"""Familiar pairs of one user that a sweep leaves, so that one account does not crowd out others."""
MAX_ROWS: Final = 100_000
"""Rows that a sweep leaves, so that a flood cannot fill the disk."""

_WINDOW_MS = clock.milliseconds(WINDOW)
_FAMILIAR_MS = clock.milliseconds(FAMILIAR)

# `excluded`: the row that could not be inserted because its key exists.
_FAILURES, _SINCE = literal_column("excluded.failures", Integer), literal_column("excluded.since", BigInteger)
_STALE = or_(attempts.c.since <= _SINCE - _WINDOW_MS, attempts.c.since >= _SINCE + _WINDOW_MS)
_INCREASED = {
    "failures": case((_STALE, _FAILURES), else_=attempts.c.failures + _FAILURES),
    "since": case((_STALE, _SINCE), else_=attempts.c.since),
    "name_digest": literal_column("excluded.name_digest", LargeBinary),
}
_CLEARED = {"failures": 0, "admitted_at": None}


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
    """How an attempt is treated."""

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
        self._increase = upsert(database.dialect, attempts, _INCREASED)
        self._pacing = Pacing(database)

    async def check(self, attempt: SignInAttempt) -> Treatment:
        """The treatment of an attempt; `TooManyRequests` if it is a stranger's with too many failures."""
        now = self._database.now()
        keys = [attempt.pair, attempt.address] if attempt.device is None else [attempt.device]
        rows = await self._database.fetch(select(attempts).where(attempts.c.digest.in_(keys)))
        by_key = {row.digest: row for row in rows}
        own = by_key.get(attempt.own)
        own_wait = _wait(own, PAIR_FAILURES, now)
        if attempt.device is not None or (own is not None and _is_familiar(own, now)):
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

    def success(self, attempt: SignInAttempt) -> Executable:
        """The statement that makes the pair familiar and clears its failures.

        The failures stay if a known device signed in: they may be someone else's.

        The address keeps its count: a guesser there may have an account of their own.
        """
        fresh = {"succeeded_at": (now := self._database.now()), "name_digest": attempt.name}
        if attempt.device is None:
            fresh |= {"failures": 0, "since": now, "admitted_at": None}
        row = {"digest": attempt.pair, "failures": 0, "since": now, "admitted_at": None, **fresh}
        return upsert(self._database.dialect, attempts, fresh).values(row)

    async def credential_failed(self, address: str) -> None:
        """Count an unknown refresh token, API key, invitation or link; `TooManyRequests` if there were too many from that
        address.

        Even then one is answered every few seconds, so that a client whose session has ended learns of it.
        """
        key = credential_digest(address)
        row = await self._database.first(select(attempts).where(attempts.c.digest == key))
        if not _wait(row, CREDENTIAL_FAILURES, self._database.now()):
            self._failures[key, None] += 1
            await self._counting.run(None, self._count)
        elif pause := await self._pacing.admit(key):
            raise too_many_attempts(pause)

    async def sweep(self) -> None:
        """Delete what is old, what one user has too many of, and of the rest the oldest, strangers first."""
        now = self._database.now()
        unfamiliar = or_(attempts.c.succeeded_at.is_(None), attempts.c.succeeded_at <= now - _FAMILIAR_MS)
        newest_first = func.row_number().over(
            partition_by=attempts.c.name_digest, order_by=attempts.c.succeeded_at.desc()
        )
        pairs = (
            select(attempts.c.digest, newest_first.label("number"))
            .where(attempts.c.name_digest.is_not(None), attempts.c.succeeded_at.is_not(None))
            .subquery()
        )
        too_many_pairs = select(pairs.c.digest).where(pairs.c.number > MAX_PAIRS)
        old = delete(attempts).where(attempts.c.since <= now - _WINDOW_MS, unfamiliar)
        await self._database.execute(old, wait=SWEEP_WAIT)
        crowd = delete(attempts).where(attempts.c.digest.in_(too_many_pairs))
        await self._database.execute(crowd, wait=SWEEP_WAIT)
        [count] = await self._database.fetch(select(func.count().label("rows")).select_from(attempts))
        if count.rows > MAX_ROWS:
            oldest = (
                select(attempts.c.digest)
                .order_by(case((attempts.c.succeeded_at.is_(None), 0), else_=1), attempts.c.since)
                .limit(count.rows - MAX_ROWS)
            )
            excess = delete(attempts).where(attempts.c.digest.in_(oldest))
            await self._database.execute(excess, wait=SWEEP_WAIT)

    async def _count(self) -> None:
        async with self._write_lock:
            self._counting.forget(None)
            # Taken even if the write fails: then every caller that waits gets the error.
            failures, self._failures = self._failures, Counter()
            now = self._database.now()
            # Sorted, so that two transactions do not deadlock.
            rows = [
                {"digest": key, "name_digest": name, "failures": times, "since": now}
                for (key, name), times in sorted(failures.items())
            ]
            await self._database.transact(lambda transaction: transaction.execute(self._increase, rows))


async def clear_failures(transaction: "AsyncConnection", username: str, address: str | None = None) -> None:
    """Clear all counts of the user, and that of the address if one is given."""
    of_user = attempts.c.name_digest == name_digest(username)
    await transaction.execute(update(attempts).where(of_user).values(_CLEARED))
    if address is not None:
        of_address = attempts.c.digest == address_digest(address)
        await transaction.execute(update(attempts).where(of_address).values(_CLEARED))


async def forget_user(transaction: "AsyncConnection", username: str) -> None:
    """Forget a deleted user: the next one with this name is a stranger everywhere."""
    await transaction.execute(delete(attempts).where(attempts.c.name_digest == name_digest(username)))


def _is_familiar(row: AnyRow, now: int) -> bool:
    return row.succeeded_at is not None and now - row.succeeded_at < _FAMILIAR_MS


def _wait(row: AnyRow | None, limit: int, now: int) -> int:
    """Milliseconds. A count that starts far in the future was written by a clock that has been corrected since."""
    if row is None or row.failures < limit or abs(now - row.since) >= _WINDOW_MS:
        return 0
    wait: int = min(_WINDOW_MS, row.since + _WINDOW_MS - now)
    return wait
