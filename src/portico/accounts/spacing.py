"""Attempts that are spaced out: under one key, one is let through every few seconds, by all workers together.

It is what becomes of too many failures where a refusal would let one user lock another out. The user who knows
the password gets in after a wait, and somebody who guesses it has one guess for each of those waits.
"""

import math
from collections import Counter
from datetime import timedelta
from typing import Final

from sqlalchemy import or_, select, update

from portico.accounts import moments
from portico.accounts.turns import LineFull, Turns
from portico.errors import TooManyRequests
from portico.store.database import Database
from portico.store.tables import attempts

SPACING: Final = timedelta(seconds=5)
LINE: Final = 3
"""How many wait for their turn under one key, in each worker."""
USER_LINE: Final = 9
"""The same under all keys of one user name."""
LONGEST_WAIT: Final = timedelta(seconds=20)
"""After this, one who always found another worker faster is refused."""

_SPACING_MS = SPACING // timedelta(milliseconds=1)


class Spacing:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns = Turns(LINE)
        self._names: Counter[bytes] = Counter()

    async def wait(self, key: bytes, name: bytes) -> None:
        """Return when it is this attempt's turn; `TooManyRequests` if too many wait already."""
        if self._names[name] >= USER_LINE:
            raise _too_many()
        self._names[name] += 1
        until = moments.monotonic() + LONGEST_WAIT.total_seconds()
        try:
            async with self._turns.taken(key):
                while pause := await self.claim(key):
                    if moments.monotonic() + pause > until:
                        raise _too_many()
                    await moments.sleep(pause)
        except LineFull:
            raise _too_many() from None
        finally:
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    async def claim(self, key: bytes) -> float:
        """Take the turn under this key: 0, or the seconds until there is one again."""
        query = select(attempts.c.admitted_at).where(attempts.c.digest == key)
        async with self._database.connect() as reading:
            row = (await reading.execute(query)).first()
        if row is None:  # cleared meanwhile
            return 0
        now = moments.now()
        if pause := _pause(row.admitted_at, now):
            return pause
        taken = attempts.c.admitted_at
        free = or_(taken.is_(None), taken <= now - _SPACING_MS, taken > now + _SPACING_MS)
        async with self._database.begin() as transaction:
            claim = update(attempts).where(attempts.c.digest == key, free).values(admitted_at=now)
            claimed = (await transaction.execute(claim)).rowcount
        return 0 if claimed else SPACING.total_seconds()


def _pause(admitted_at: int | None, now: int) -> float:
    """Seconds. A turn that seems to lie in the future was taken by a clock that has been put right since."""
    if admitted_at is None or not now - _SPACING_MS < admitted_at <= now + _SPACING_MS:
        return 0
    return (admitted_at + _SPACING_MS - now) / 1000


def too_many(wait: float) -> TooManyRequests:
    seconds = math.ceil(wait)
    when = f"{seconds} seconds" if seconds <= 90 else f"{math.ceil(seconds / 60)} minutes"
    return TooManyRequests(
        f"Too many sign-ins have failed; try again in {when}, or ask the administrator to unlock the user.",
        retry_after=seconds,
    )


def _too_many() -> TooManyRequests:
    return too_many(SPACING.total_seconds())
