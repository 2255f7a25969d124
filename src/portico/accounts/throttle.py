"""Throttling of sign-ins: failures are counted in the database, so over all workers and nodes.

An account is never locked. What is slowed down is an address, and a user name tried from an address.

Failures that come while others are being written are written together: a flood costs one transaction after the other,
not one for each guess, and each worker has one of them at a time in the line of those who write.
"""

import asyncio
import ipaddress
import math
from collections import Counter
from datetime import timedelta
from hashlib import sha256
from typing import Final

from sqlalchemy import BigInteger, Integer, case, delete, func, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts import moments
from portico.accounts.names import name_key
from portico.errors import TooManyRequests
from portico.joint import Joint
from portico.store.database import AnyRow, Database, upsert
from portico.store.tables import attempts

WINDOW: Final = timedelta(minutes=15)
"""Failures are counted from the first one on for this long; then the count starts anew."""
PAIR_FAILURES: Final = 10
"""Failures of one user name from one address within the window, before it must wait for the window's end."""
ADDRESS_FAILURES: Final = 50
"""The same for all user names from one address; a familiar pair is exempt."""
FAMILIAR: Final = timedelta(days=90)
"""How long a pair stays familiar after its last sign-in."""
MOST_ROWS: Final = 100_000
"""What a sweep leaves at most, so that a flood cannot fill the disk."""

_WINDOW_MS = WINDOW // timedelta(milliseconds=1)
_FAMILIAR_MS = FAMILIAR // timedelta(milliseconds=1)

# The row that could not be inserted, because there is one.
_FAILURES, _SINCE = literal_column("excluded.failures", Integer), literal_column("excluded.since", BigInteger)
_STALE = or_(attempts.c.since <= _SINCE - _WINDOW_MS, attempts.c.since >= _SINCE + _WINDOW_MS)
_INCREASED = {
    "failures": case((_STALE, _FAILURES), else_=attempts.c.failures + _FAILURES),
    "since": case((_STALE, _SINCE), else_=attempts.c.since),
}


class Throttle:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._failures: Counter[bytes] = Counter()
        """What waits for the database, by key."""
        self._counting: Joint[None, None] = Joint()
        self._turn = asyncio.Lock()
        self._increase = upsert(database.dialect, attempts, _INCREASED)

    async def check(self, username: str, address: str, *, within: AsyncConnection | None = None) -> bool:
        """Whether the pair is familiar; `TooManyRequests` if it, or for strangers its address, has to wait."""
        pair, place = _keys(username, address)
        now = moments.now()
        async with self._database.connect(within) as reading:
            rows = (await reading.execute(select(attempts).where(attempts.c.digest.in_([pair, place])))).all()
        known = {row.digest: row for row in rows}
        familiar = pair in known and _is_familiar(known[pair], now)
        limits = {pair: PAIR_FAILURES} if familiar else {pair: PAIR_FAILURES, place: ADDRESS_FAILURES}
        wait = max(
            (_wait(known[key], limit, now) for key, limit in limits.items() if key in known), default=0
        )
        if wait:
            raise TooManyRequests(
                f"There were too many failed sign-ins from this address; try again in {wait} seconds.",
                retry_after=wait,
            )
        return familiar

    async def failed(self, username: str, address: str) -> None:
        """Count it; it is counted for all when this returns."""
        self._failures.update(_keys(username, address))
        await self._counting.run(None, self._count)

    async def succeeded(self, username: str, address: str, *, within: AsyncConnection | None = None) -> None:
        """Clear the pair's failures and make it familiar. The address keeps its count: it may have one good account."""
        pair, _ = _keys(username, address)
        fresh = {"failures": 0, "since": (now := moments.now()), "succeeded_at": now}
        async with self._database.begin(within) as transaction:
            await transaction.execute(
                upsert(self._database.dialect, attempts, fresh), {"digest": pair, **fresh}
            )

    async def sweep(self) -> None:
        """Forget what is old, and of the rest the oldest above `MOST_ROWS`, strangers first."""
        now = moments.now()
        unfamiliar = or_(attempts.c.succeeded_at.is_(None), attempts.c.succeeded_at <= now - _FAMILIAR_MS)
        async with self._database.begin() as transaction:
            await transaction.execute(
                delete(attempts).where(attempts.c.since <= now - _WINDOW_MS, unfamiliar)
            )
            rows = (await transaction.execute(select(func.count()).select_from(attempts))).scalar_one()
            if rows > MOST_ROWS:
                oldest = (
                    select(attempts.c.digest)
                    .order_by(case((attempts.c.succeeded_at.is_(None), 0), else_=1), attempts.c.since)
                    .limit(rows - MOST_ROWS)
                )
                await transaction.execute(delete(attempts).where(attempts.c.digest.in_(oldest)))

    async def _count(self) -> None:
        async with self._turn:
            self._counting.close(None)
            # Taken whatever becomes of them: who waits for a count that fails is told so.
            failures, self._failures = self._failures, Counter()
            now = moments.now()
            # Sorted, so that two transactions cannot lock each other's rows crosswise.
            rows = [{"digest": key, "failures": failures[key], "since": now} for key in sorted(failures)]
            async with self._database.begin() as transaction:
                await transaction.execute(self._increase, rows)


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 that an IPv6 subscriber has to himself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False))
    return str(parsed)


def pair_of(username: str, address: str) -> bytes:
    """By what the pair is known, however the name is written and whichever address of its network it is."""
    return _keys(username, address)[0]


def _keys(username: str, address: str) -> tuple[bytes, bytes]:
    """The keys of the pair and of the address. They are hashes: as long as it gets, a user name fills no more."""
    network = network_of(address).encode("utf-8", "surrogatepass")
    name = (name_key(username) or username[:256]).encode("utf-8", "surrogatepass")
    return sha256(b"pair\0" + network + b"\0" + name).digest(), sha256(b"address\0" + network).digest()


def _is_familiar(row: AnyRow, now: int) -> bool:
    return row.succeeded_at is not None and now - row.succeeded_at < _FAMILIAR_MS


def _wait(row: AnyRow, limit: int, now: int) -> int:
    """Seconds. A count that seems to begin far in the future was made by a clock that has been put right since."""
    if row.failures < limit or abs(now - row.since) >= _WINDOW_MS:
        return 0
    wait: int = min(_WINDOW_MS, row.since + _WINDOW_MS - now)
    return math.ceil(wait / 1000)
