"""Jobs: changes that go on after their request was answered. Each has a row, written by the process that does the work.

About once a second a process saves the progress of all its jobs together, and learns which of them are to end: because a
request on any node has asked for that, or because their user was disabled or deleted. A row whose process has died, or
has not been heard of for a while, is turned into an interrupted one by the first that looks at it. An owner that was
given up for dead finds that out with its next save, and ends its work.
"""

import builtins
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
import structlog
from sqlalchemy import BigInteger, Executable, and_, bindparam, delete, func, or_, select, update

from portico.model.errors import PorticoError
from portico.runtime import clock
from portico.runtime.progress_counter import ProgressCounter
from portico.store.database import SWEEP_WAIT, AnyRow, Database, inserting, new_row, record_of
from portico.store.ownership import Owned, Ownership, is_mine
from portico.store.reach import read_compiled
from portico.store.tables import jobs, users

RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
INTERRUPTED: Final = "interrupted"
"""Its process died or was stopped."""

KEPT: Final = timedelta(days=1)
"""How long it is known how a job has ended."""
LIFETIME: Final = timedelta(seconds=15)
"""After which a job whose process is silent counts as interrupted, if nobody can see that the process has ended."""
RENEWAL: Final = timedelta(seconds=1)

_RUNNING_OF: Final = and_(
    jobs.c.namespace == bindparam("whose"), jobs.c.state == RUNNING, jobs.c.owned_until > bindparam("now")
)
_RUNNING_NUMBER: Final = select(func.count().label("number")).select_from(jobs).where(_RUNNING_OF)
_ADD: Final = inserting(jobs, _RUNNING_NUMBER.scalar_subquery() < bindparam("most", type_=BigInteger))
_SAVE: Final = (
    update(jobs)
    .where(is_mine(jobs), jobs.c.state == RUNNING)
    .values(
        state=bindparam("new_state"),
        entries=bindparam("done"),
        bytes=bindparam("size"),
        total=bindparam("of"),
        outcome=bindparam("how"),
        owned_until=bindparam("until"),
        ended_at=bindparam("end"),
    )
)

log = structlog.get_logger()


class JobRecord(msgspec.Struct, frozen=True, rename={"size": "bytes"}):
    id: str
    user_id: int
    namespace: str
    """Tells those apart who must not see each other's jobs."""
    kind: str
    source: str
    target: str | None
    request_id: str
    started_at: int
    state: str = RUNNING
    entries: int = 0
    size: int = 0
    total: int | None = None
    outcome: str | None = None
    ended_at: int | None = None


class OwnedJob(Owned):
    def __init__(
        self,
        rows: "JobRecords",
        job_id: str,
        claim: Mapping[str, Any],
        counter: ProgressCounter,
        cancel: Callable[[], None],
    ) -> None:
        """`cancel` is called when it is to end early; it may be called again."""
        super().__init__(rows, job_id, claim)
        self.counter = counter
        self.cancel = cancel
        self.state = RUNNING
        self.outcome: str | None = None
        self.ended_at: int | None = None

    def renewed(self, row: AnyRow | None, until: int) -> None:
        if row is None or row.unwanted:
            self.cancel()


class JobRecords(Ownership[OwnedJob]):
    def __init__(
        self, database: Database, node: str, *, lifetime: timedelta = LIFETIME, renewal: timedelta = RENEWAL
    ) -> None:
        super().__init__(database, jobs, "job", node, lifetime=lifetime, renewal=renewal)
        self._mine: set[str] = set()
        """The jobs of this process that have not ended in the database."""

    # The process that does the work

    async def add(
        self, record: JobRecord, counter: ProgressCounter, cancel: Callable[[], None], *, most: int
    ) -> OwnedJob | None:
        """The job; None if `most` of its namespace are running, on whatever node."""
        claim = self.new_claim()
        values = {"state": RUNNING, "bytes": record.size, "cancel_wanted": False, **claim}
        row = msgspec.structs.asdict(record) | values
        counted = {"whose": record.namespace, "now": self.database.now(), "most": most}
        user = select(users.c.id).where(users.c.id == record.user_id)
        self._mine.add(record.id)
        added: Sequence[AnyRow] = ()
        try:
            added = await self.database.write_in_turn(user, _ADD, new_row(jobs, row) | counted)
        finally:
            if not added:  # after an error, it may have been inserted, and then counts as interrupted soon
                self._mine.discard(record.id)
        return OwnedJob(self, record.id, claim, counter, cancel) if added else None

    async def end(self, job: OwnedJob, state: str, outcome: str | None = None) -> None:
        """If the database does not answer, it is tried again with the next save."""
        await job.let_go()
        job.state, job.outcome, job.ended_at = state, outcome, self.database.now()
        try:
            await self.renew([job])
        except PorticoError as error:
            log.warning("job-not-ended", cause=error.cause)
            self.hold(job)

    async def renew(self, held: Sequence[OwnedJob]) -> Sequence[OwnedJob]:
        until = self.renewed_values()["owned_until"]
        await self.database.execute(
            _SAVE,
            [
                {
                    **job.me,
                    "new_state": job.state,
                    "done": job.counter.entries,
                    "size": job.counter.size,
                    "of": job.counter.total,
                    "how": job.outcome,
                    "until": until,
                    "end": job.ended_at,
                }
                for job in held
            ],
        )
        running = [job for job in held if job.state == RUNNING]
        self._mine.difference_update(job.key for job in held if job.state != RUNNING)
        if not running:
            return []
        columns = jobs.c.owner, or_(jobs.c.cancel_wanted, users.c.disabled).label("unwanted"), users.c.reach
        mine = and_(jobs.c.owner.in_([job.owner for job in running]), jobs.c.state == RUNNING)
        query = select(*columns).join_from(jobs, users).where(mine, jobs.c.id.in_([job.key for job in running]))
        rows = {row.owner: row for row in await self.database.fetch(query)}
        now = clock.to_datetime(self.database.now())
        for job in running:
            job.renewed(row := rows.get(job.owner), until)
            if row and (end := read_compiled(row.reach).expires_at) and end <= now:
                job.cancel()
        return [job for job in running if job.owner in rows]

    # Those who ask

    async def running_by(self, namespace: str) -> int:
        values = {"whose": namespace, "now": self.database.now()}
        row = await self.database.first(_RUNNING_NUMBER, values)
        return int(row.number) if row else 0

    async def get(self, namespace: str, job_id: str) -> JobRecord | None:
        query = select(jobs).where(jobs.c.id == job_id, jobs.c.namespace == namespace)
        found = await self._fetched(query)
        return found[0] if found else None

    async def list(self, namespace: str, limit: int) -> list[JobRecord]:
        """The newest first."""
        query = select(jobs).where(jobs.c.namespace == namespace)
        return await self._fetched(query.order_by(jobs.c.started_at.desc(), jobs.c.id).limit(limit))

    async def _fetched(self, query: Executable) -> builtins.list[JobRecord]:
        rows = await self.database.fetch(query)
        if dead := [row for row in rows if self._is_dead(row)]:
            for row in dead:
                await self._interrupt(row)
            rows = await self.database.fetch(query)
        return [record_of(JobRecord, row) for row in rows]

    async def want_cancel(self, job_id: str) -> None:
        mine = and_(jobs.c.id == job_id, jobs.c.state == RUNNING)
        await self.database.execute(update(jobs).where(mine).values(cancel_wanted=True))

    async def forget(self, job_id: str) -> bool:
        """False if it is still running."""
        ended = and_(jobs.c.id == job_id, jobs.c.state != RUNNING)
        return await self.database.execute(delete(jobs).where(ended)) > 0

    async def sweep(self) -> None:
        """Remove jobs that have ended a day ago; notice those whose process has died."""
        running = select(jobs).where(jobs.c.state == RUNNING).limit(1000)
        for row in await self.database.fetch(running):
            if self._is_dead(row):
                await self._interrupt(row)
        old = jobs.c.ended_at <= self.database.now() - clock.milliseconds(KEPT)
        await self.database.execute(delete(jobs).where(old), wait=SWEEP_WAIT)

    def _is_dead(self, row: AnyRow) -> bool:
        return row.state == RUNNING and row.id not in self._mine and self.is_over(row)

    async def _interrupt(self, row: AnyRow) -> None:
        its = and_(jobs.c.id == row.id, jobs.c.state == RUNNING, jobs.c.owned_until == row.owned_until)
        values = {"state": INTERRUPTED, "ended_at": self.database.now()}
        await self.database.execute(update(jobs).where(its).values(values))
