"""Rewinds: their plans, how far they have come, and what they have left alone."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

import msgspec
from sqlalchemy import and_, delete, insert, or_, select, update

from portico.runtime import clock
from portico.store.database import Database, record_of
from portico.store.tables import rewinds

PLANNED: Final = "planned"
"""By a user, who has not begun it."""
STARTED: Final = "started"
"""A user's own, which is not resumed if its process dies."""
RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


_KEPT: Final = timedelta(days=90)
_PLANNED_FOR: Final = timedelta(hours=1)
"""How long a plan is kept that nobody begins."""
_AT_ONCE: Final = 500


class RewindRecord(msgspec.Struct):
    id: str
    request: str
    """Whose changes, and by whom they are undone."""
    state: str
    steps: str
    """How many of each kind the plan has."""
    done: int
    """How many steps of the plan were carried out."""
    report: str
    """What was left alone; of a user's own, the first of it."""
    cancel_wanted: bool
    started_at: int
    ended_at: int | None = None
    left_alone: int = 0
    """How much was left alone."""


_COLUMNS: Final = [rewinds.c[name] for name in RewindRecord.__struct_fields__]


class RewindRecords:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def add(self, record: RewindRecord, plan: str) -> None:
        """`plan`: its steps, kept until it ends. There may be very many."""
        await self.database.execute(insert(rewinds).values(msgspec.structs.asdict(record) | {"plan": plan}))

    async def get(self, rewind_id: str) -> RewindRecord | None:
        row = await self.database.first(select(*_COLUMNS).where(rewinds.c.id == rewind_id))
        return record_of(RewindRecord, row) if row else None

    async def plan(self, rewind_id: str) -> str:
        row = await self.database.first(select(rewinds.c.plan).where(rewinds.c.id == rewind_id))
        return row.plan if row else "[]"

    async def requests(self, since: int) -> Sequence[tuple[str, str]]:
        """The ids and requests of those that have begun since a time, the oldest first."""
        query = select(rewinds.c.id, rewinds.c.request).where(rewinds.c.started_at >= since)
        query = query.order_by(rewinds.c.started_at)
        return [(row.id, row.request) for row in await self.database.fetch(query)]

    async def among(self, ids: Collection[str]) -> set[str]:
        """Which of these are ids of rewinds."""
        wanted = sorted(ids)
        found: set[str] = set()
        for start in range(0, len(wanted), _AT_ONCE):
            some = rewinds.c.id.in_(wanted[start : start + _AT_ONCE])
            found |= {row.id for row in await self.database.fetch(select(rewinds.c.id).where(some))}
        return found

    async def running(self) -> Sequence[str]:
        query = select(rewinds.c.id).where(rewinds.c.state == RUNNING).order_by(rewinds.c.started_at)
        return [row.id for row in await self.database.fetch(query)]

    async def save(self, rewind_id: str, before: int, done: int, report: str | None, left_alone: int) -> bool | None:
        """Whether it is to continue; None if another process carries it out, because it took this one for dead.

        `before`: what was saved last. `report`: if there is more of it.
        """
        mine = (rewinds.c.id == rewind_id, rewinds.c.done == before, rewinds.c.ended_at.is_(None))
        values = {"done": done} | ({} if report is None else {"report": report, "left_alone": left_alone})
        if not await self.database.execute(update(rewinds).where(*mine).values(values)):
            return None
        row = await self.database.first(select(rewinds.c.cancel_wanted).where(rewinds.c.id == rewind_id))
        return row is not None and not row.cancel_wanted

    async def start(self, rewind_id: str) -> bool:
        """Whether it was planned by a user, and not begun before."""
        planned = (rewinds.c.id == rewind_id, rewinds.c.state == PLANNED)
        return await self.database.execute(update(rewinds).where(*planned).values(state=STARTED)) > 0

    async def end(self, rewind_id: str, state: str) -> None:
        values = {"state": state, "ended_at": self.database.now(), "plan": "[]"}
        await self.database.execute(update(rewinds).where(rewinds.c.id == rewind_id).values(values))

    async def want_cancel(self, rewind_id: str) -> bool:
        """False if it is not running."""
        running = (rewinds.c.id == rewind_id, rewinds.c.state.in_((RUNNING, STARTED)))
        return await self.database.execute(update(rewinds).where(*running).values(cancel_wanted=True)) > 0

    async def sweep(self) -> None:
        """Remove those that ended long ago, and those that were never begun."""
        now, began = self.database.now(), rewinds.c.started_at
        before = now - clock.milliseconds(_KEPT)
        unwanted = and_(rewinds.c.state == PLANNED, began < now - clock.milliseconds(_PLANNED_FOR))
        old = or_(rewinds.c.ended_at < before, and_(rewinds.c.state != RUNNING, began < before), unwanted)
        await self.database.execute(delete(rewinds).where(old))
