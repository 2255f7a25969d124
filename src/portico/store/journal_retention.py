"""Old rows of the journal are removed, oldest first, after it was signed up to which number.

A row's own time cannot say that it is old: anybody who can write to the database could set it. So the times of checkpoints count,
and of marks that are signed with the lower bound.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select

from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, Database
from portico.store.journal_chain import BOUND, CHECKPOINT, HOUR, LOWER_BOUND, Bound, Checkpoint, store_proof
from portico.store.signatures import NotSigned, Signer
from portico.store.tables import journal, journal_proofs

_REMOVED_AT_ONCE: Final = 2000
_LONGEST: Final = timedelta(minutes=8)
_MARKS: Final = 100
"""As many at most: rows may stay longer by this part of their time."""
_NEWEST: Final = select(func.max(journal.c.number)).scalar_subquery()
_OLDEST: Final = select(journal.c.at).order_by(journal.c.number).limit(1)
_STORED: Final = select(journal_proofs.c.signed, journal_proofs.c.at).where(journal_proofs.c.name == LOWER_BOUND)


async def remove_rows(database: Database, older_than: timedelta, signer: Signer) -> int:
    """Returns how many there were. Some at a time: meanwhile others write. The last row stays: the next number follows it.

    If it is cut off, or takes too long, the next call continues.
    """
    until = clock.uptime() + _LONGEST.total_seconds()
    age, now = clock.milliseconds(older_than), database.now()
    stored = await database.first(_STORED)
    is_recent = stored is not None and now - stored.at < age // _MARKS
    if is_recent and ((oldest := await database.first(_OLDEST)) is None or oldest.at >= now - age):
        return 0
    is_old: ColumnElement[bool] = journal.c.at < now - age
    if stored:
        # What was done to a bound that is not signed is for `portico audit verify` to say: rows are removed nevertheless.
        with suppress(NotSigned):
            if is_recent:
                is_old = journal.c.number <= signer.opened(BOUND, stored.signed, Bound).removed
            else:
                bound = await database.at_once(partial(_advance, signer=signer, signed=stored.signed, now=now, age=age))
                is_old = or_(journal.c.number <= bound.removed, and_(journal.c.number <= bound.before, is_old))
    old = select(journal.c.number).where(is_old, journal.c.number < _NEWEST).limit(_REMOVED_AT_ONCE)
    removed = 0
    while clock.uptime() < until:
        count = await database.execute(delete(journal).where(journal.c.number.in_(old)), wait=SWEEP_WAIT)
        if not count:
            break
        removed += count
    return removed


def _advance(connection: Connection, signer: Signer, signed: str, now: int, age: int) -> Bound:
    """Sign up to which number rows are old, and forget the checkpoints of chains that had no others."""
    bound = signer.opened(BOUND, signed, Bound)
    ended: dict[str, Checkpoint] = {}
    earlier = (journal_proofs.c.name != LOWER_BOUND) & (journal_proofs.c.at < now - age)
    for row in connection.execute(select(journal_proofs).where(earlier)):
        with suppress(NotSigned):
            ended[row.name] = signer.opened(CHECKPOINT, row.signed, Checkpoint)
    marks = [*bound.marks, *((each.at, each.head.number) for each in ended.values())]
    newest = connection.execute(select(func.max(journal.c.number))).scalar() or 0
    old = max((number for at, number in marks if at < now - age), default=0)
    removed = max(bound.removed, min(old, newest - 1))
    left = [(at, number) for at, number in bound.marks if number > removed]
    bound = Bound(bound.before, removed, [*left, (now, newest)], bound.since)
    store_proof(connection, LOWER_BOUND, signer.sign(BOUND, bound), now)
    first = select(journal.c.at).where(journal.c.number > removed).order_by(journal.c.number).limit(1)
    oldest = connection.execute(first).scalar() or 0
    gone = [name for name, each in ended.items() if each.head.number <= removed and each.at < oldest - HOUR]
    connection.execute(delete(journal_proofs).where(journal_proofs.c.name.in_(gone)))
    return bound
