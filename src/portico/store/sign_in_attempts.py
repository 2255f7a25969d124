"""Failed sign-ins, counted for all workers and nodes; what follows from the counts is in `accounts.throttle`."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

import msgspec
from sqlalchemy import BigInteger, Integer, LargeBinary, and_, case, delete, func, literal_column, or_, select, update

from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, Database, Statement, surplus, upsert
from portico.store.tables import attempts

WINDOW: Final = timedelta(minutes=15)
"""Failures are counted for this long from the first one; then the count starts again."""
FAMILIAR: Final = timedelta(days=90)
"""How long a pair of user and address is familiar after its last sign-in."""
MAX_PAIRS: Final = 100
"""Familiar pairs of one user that a sweep leaves, so that one account does not crowd out others."""
MAX_ROWS: Final = 100_000
"""Rows that a sweep leaves, so that a flood cannot fill the disk."""

_WINDOW_MS = clock.milliseconds(WINDOW)

# `excluded`: the row that could not be inserted because its key exists.
_FAILURES, _SINCE = literal_column("excluded.failures", Integer), literal_column("excluded.since", BigInteger)
_STALE = or_(attempts.c.since <= _SINCE - _WINDOW_MS, attempts.c.since >= _SINCE + _WINDOW_MS)
_INCREASED = {
    "failures": case((_STALE, _FAILURES), else_=attempts.c.failures + _FAILURES),
    "since": case((_STALE, _SINCE), else_=attempts.c.since),
    "name_digest": literal_column("excluded.name_digest", LargeBinary),
}


class Counted(msgspec.Struct, frozen=True):
    """What is known of one key. Times are in milliseconds."""

    failures: int
    since: int
    succeeded_at: int | None
    admitted_at: int | None


class AttemptRecords:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._increase = upsert(database.dialect, attempts, _INCREASED)

    async def find(self, keys: Collection[bytes]) -> dict[bytes, Counted]:
        rows = await self._database.fetch(select(attempts).where(attempts.c.digest.in_(keys)))
        return {row.digest: Counted(row.failures, row.since, row.succeeded_at, row.admitted_at) for row in rows}

    async def admit(self, key: bytes, now: int, interval: int) -> bool:
        """Whether no other attempt under this key was admitted within the interval."""
        last = attempts.c.admitted_at
        due = or_(last.is_(None), last <= now - interval, last > now + interval)
        statement = update(attempts).where(attempts.c.digest == key, due).values(admitted_at=now)
        return await self._database.execute(statement) > 0

    async def count(self, failures: Mapping[tuple[bytes, bytes | None], int]) -> None:
        now = self._database.now()
        # Sorted, so that two transactions do not deadlock.
        rows = [
            {"digest": key, "name_digest": name, "failures": times, "since": now}
            for (key, name), times in sorted(failures.items())
        ]
        await self._database.transact(lambda transaction: transaction.execute(self._increase, rows))

    def success(self, pair: bytes, name: bytes, *, clear: bool) -> Statement:
        """The statement that makes the pair familiar, and clears its failures."""
        cleared = {"failures": 0, "since": (now := self._database.now()), "admitted_at": None}
        fresh = {"succeeded_at": now, "name_digest": name, **(cleared if clear else {})}
        return upsert(self._database.dialect, attempts, fresh).values({"digest": pair, **cleared, **fresh})

    async def sweep(self) -> None:
        """Delete what is old, what one user has too many of, and of the rest the oldest, strangers first."""
        now = self._database.now()
        unfamiliar = or_(
            attempts.c.succeeded_at.is_(None), attempts.c.succeeded_at <= now - clock.milliseconds(FAMILIAR)
        )
        old = delete(attempts).where(attempts.c.since <= now - _WINDOW_MS, unfamiliar)
        await self._database.execute(old, wait=SWEEP_WAIT)
        columns = attempts.c
        pairs = and_(columns.name_digest.is_not(None), columns.succeeded_at.is_not(None))
        crowd = surplus(
            columns.digest, per=columns.name_digest, newest=columns.succeeded_at, most=MAX_PAIRS, where=pairs
        )
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


def cleared(name: bytes, address: bytes | None = None) -> Statement:
    key = attempts.c.name_digest == name
    if address is not None:
        key = or_(key, attempts.c.digest == address)
    return update(attempts).where(key).values(failures=0, admitted_at=None)


def forgotten(name: bytes) -> Statement:
    """Forgets a deleted user: the next one with this name is a stranger everywhere."""
    return delete(attempts).where(attempts.c.name_digest == name)
