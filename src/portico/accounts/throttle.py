"""Throttling of sign-ins: failures are counted in the database, so over all workers and nodes.

An account is never locked. A stranger is refused, by address and by user name and address. A known user, by a device
or by having signed in from the same address, is slowed down and not refused: else anybody at that address could
lock the user out.

Failures that come while others are being written are written together: a flood costs one transaction after the other,
not one for each guess, and each worker has one of them at a time in the line of those who write.
"""

import asyncio
from collections import Counter
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    BigInteger,
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

from portico.accounts import moments
from portico.accounts.attempts import Attempt, digest_of_name, digest_of_place, digest_of_refreshes
from portico.accounts.spacing import Spacing, too_many
from portico.joint import Joint
from portico.store.database import AnyRow, Database, upsert
from portico.store.tables import attempts

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

WINDOW: Final = timedelta(minutes=15)
"""Failures are counted from the first one on for this long; then the count starts anew."""
PAIR_FAILURES: Final = 10
"""Failures of one user name from one address, or from one known device, within the window, before it has to wait."""
ADDRESS_FAILURES: Final = 50
"""The same for all user names from one address; who is known is exempt."""
REFRESH_FAILURES: Final = 50
"""Refresh tokens from one address that are none, within the window, before most of them are turned away."""
FAMILIAR: Final = timedelta(days=90)
"""How long a pair stays familiar after its last sign-in."""
MOST_PAIRS: Final = 100
"""Familiar pairs of one user that a sweep leaves: one account must not crowd out the pairs of others."""
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
    "name_digest": literal_column("excluded.name_digest", LargeBinary),
}
_CLEARED = {"failures": 0, "admitted_at": None}


class Standing(Enum):
    """How an attempt is to be treated."""

    STRANGER = auto()
    KNOWN = auto()
    SPACED = auto()
    """Known, but with too many failures of its own: `Throttle.wait` comes before the password is verified."""


class Throttle:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._failures: Counter[tuple[bytes, bytes | None]] = Counter()
        """What waits for the database, by key and user name."""
        self._counting: Joint[None, None] = Joint()
        self._turn = asyncio.Lock()
        self._increase = upsert(database.dialect, attempts, _INCREASED)
        self._spacing = Spacing(database)

    async def check(self, attempt: Attempt, *, within: "AsyncConnection | None" = None) -> Standing:
        """What `attempt` is to us; `TooManyRequests` if it is a stranger's and has to wait for the window's end."""
        now = moments.now()
        keys = [attempt.pair, attempt.place] if attempt.device is None else [attempt.device]
        async with self._database.connect(within) as reading:
            rows = (await reading.execute(select(attempts).where(attempts.c.digest.in_(keys)))).all()
        found = {row.digest: row for row in rows}
        own = found.get(attempt.own)
        own_wait = _wait(own, PAIR_FAILURES, now)
        if attempt.device is not None or (own is not None and _is_familiar(own, now)):
            return Standing.SPACED if own_wait else Standing.KNOWN
        if wait := max(own_wait, _wait(found.get(attempt.place), ADDRESS_FAILURES, now)):
            raise too_many(wait / 1000)
        return Standing.STRANGER

    async def wait(self, attempt: Attempt) -> None:
        """Wait for the turn of an attempt that is `SPACED`; `TooManyRequests` if too many wait for theirs."""
        await self._spacing.wait(attempt.own, attempt.name)

    async def failed(self, attempt: Attempt) -> None:
        """Count it; it is counted for all when this returns. A known device answers for itself alone."""
        self._failures[attempt.own, attempt.name] += 1
        if attempt.device is None:
            self._failures[attempt.place, None] += 1
        await self._counting.run(None, self._count)

    async def succeeded(self, attempt: Attempt, *, within: "AsyncConnection | None" = None) -> None:
        """Make the pair familiar and clear its failures, unless a device signed in: those may be somebody else's.

        The address keeps its count: a guesser there may have one good account.
        """
        fresh = {"succeeded_at": (now := moments.now()), "name_digest": attempt.name}
        if attempt.device is None:
            fresh |= {"failures": 0, "since": now, "admitted_at": None}
        row = {"digest": attempt.pair, "failures": 0, "since": now, "admitted_at": None, **fresh}
        async with self._database.begin(within) as transaction:
            await transaction.execute(upsert(self._database.dialect, attempts, fresh), row)

    async def refresh_failed(self, address: str) -> None:
        """Count a refresh token that is none; `TooManyRequests` if there were too many from that address.

        Then one of them is still answered every few seconds, so that a client with an ended one learns of it.
        """
        key = digest_of_refreshes(address)
        async with self._database.connect() as reading:
            row = (await reading.execute(select(attempts).where(attempts.c.digest == key))).first()
        if not _wait(row, REFRESH_FAILURES, moments.now()):
            self._failures[key, None] += 1
            await self._counting.run(None, self._count)
        elif pause := await self._spacing.claim(key):
            raise too_many(pause)

    async def sweep(self) -> None:
        """Forget what is old, what one user has too many of, and of the rest the oldest, strangers first."""
        now = moments.now()
        unfamiliar = or_(attempts.c.succeeded_at.is_(None), attempts.c.succeeded_at <= now - _FAMILIAR_MS)
        newest_first = func.row_number().over(
            partition_by=attempts.c.name_digest, order_by=attempts.c.succeeded_at.desc()
        )
        pairs = (
            select(attempts.c.digest, newest_first.label("number"))
            .where(attempts.c.name_digest.is_not(None), attempts.c.succeeded_at.is_not(None))
            .subquery()
        )
        too_many_pairs = select(pairs.c.digest).where(pairs.c.number > MOST_PAIRS)
        async with self._database.begin() as transaction:
            await transaction.execute(
                delete(attempts).where(attempts.c.since <= now - _WINDOW_MS, unfamiliar)
            )
            await transaction.execute(delete(attempts).where(attempts.c.digest.in_(too_many_pairs)))
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
            rows = [
                {"digest": key, "name_digest": name, "failures": times, "since": now}
                for (key, name), times in sorted(failures.items())
            ]
            async with self._database.begin() as transaction:
                await transaction.execute(self._increase, rows)


async def clear_failures(transaction: "AsyncConnection", username: str, address: str | None = None) -> None:
    """Clear all counts of the user, wherever they come from, and that of the address if one is given."""
    mine = attempts.c.name_digest == digest_of_name(username)
    await transaction.execute(update(attempts).where(mine).values(_CLEARED))
    if address is not None:
        place = attempts.c.digest == digest_of_place(address)
        await transaction.execute(update(attempts).where(place).values(_CLEARED))


async def forget_user(transaction: "AsyncConnection", username: str) -> None:
    """The next user of this name is a stranger everywhere."""
    await transaction.execute(delete(attempts).where(attempts.c.name_digest == digest_of_name(username)))


def _is_familiar(row: AnyRow, now: int) -> bool:
    return row.succeeded_at is not None and now - row.succeeded_at < _FAMILIAR_MS


def _wait(row: AnyRow | None, limit: int, now: int) -> int:
    """Milliseconds. A count that seems to begin far in the future was made by a clock that has been put right since."""
    if row is None or row.failures < limit or abs(now - row.since) >= _WINDOW_MS:
        return 0
    wait: int = min(_WINDOW_MS, row.since + _WINDOW_MS - now)
    return wait
