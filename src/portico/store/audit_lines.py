"""The audit log in the database: written in batches, searched, and removed when it is old.

A line that must be there before a change waits for its batch. Any other line is queued, and written again if the database
fails meanwhile: a commit whose answer was lost may then leave it twice.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec
from sqlalchemy import delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from portico.model.errors import PorticoError
from portico.observability.audit import BEGUN, AuditLine, AuditTrail, OnLoss, encode, log_loss, open_audit, unavailable
from portico.runtime import clock
from portico.store.database import SWEEP_WAIT, Database
from portico.store.tables import audit_lines

MAX_QUEUED: Final = 10_000
"""Lines that wait for the database; further ones are lost, or refused if they are required."""
_BATCH: Final = 200
_RETRY_SECONDS: Final = 1.0
_REMOVED_AT_ONCE: Final = 2000
_CLOSE_SECONDS: Final = 5.0
_READ_ONLY: Final = "the database is read-only"


class _Queued(msgspec.Struct):
    row: dict[str, Any]
    written: "asyncio.Future[None]"
    required: bool
    """Whether the line is dropped, and its change refused, if it cannot be written now."""


class DatabaseAudit:
    def __init__(self, database: Database, *, node: str, required: bool = False, on_loss: OnLoss = log_loss) -> None:
        self._database = database
        self._node = node
        self._required = required
        self._on_loss = on_loss
        self._queue: deque[_Queued] = deque()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._lost = 0

    @property
    def queued(self) -> int:
        return len(self._queue)

    async def check(self) -> None:
        if self._required and not (await self._database.state()).writable:
            raise unavailable(_READ_ONLY)

    async def begin(self, line: AuditLine) -> None:
        if self._required:
            await self._put(msgspec.structs.replace(line, outcome=BEGUN), required=True)

    async def record(self, line: AuditLine) -> None:
        if self._required:
            await self._put(line, required=True)
        else:
            await self.end(line)

    async def end(self, line: AuditLine) -> None:
        """If lines are required, returns when this one is durable, or will be when the database answers again."""
        with suppress(PorticoError):
            queued = self._put(line, required=False)
            if self._required:
                await asyncio.wait({queued}, timeout=_CLOSE_SECONDS)

    async def close(self) -> None:
        if self._writer is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._idle.wait()
        self._writer.cancel()
        await asyncio.wait({self._writer})
        for _ in range(len(self._queue)):
            self._lose("the database didn't respond before the process ended")
        self._queue.clear()

    def _put(self, line: AuditLine, *, required: bool) -> "asyncio.Future[None]":
        if len(self._queue) >= MAX_QUEUED:
            self._lose("too many lines wait for the database")
            raise unavailable("too many lines wait for the database")
        written = asyncio.get_running_loop().create_future()
        self._queue.append(_Queued(self._row(line), written, required))
        self._arrived.set()
        self._idle.clear()
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_for_ever())
        return written

    def _row(self, line: AuditLine) -> dict[str, Any]:
        line.node = self._node
        return {
            "at": self._database.now(),
            "node": self._node,
            "user": line.user.casefold() if line.user else None,
            "action": line.action,
            "outcome": line.outcome,
            "line": encode(line).decode(),
        }

    async def _write_for_ever(self) -> None:
        while True:
            await self._arrived.wait()
            while self._queue:
                if not await self._write_batch():
                    await asyncio.sleep(_RETRY_SECONDS)
            self._arrived.clear()
            self._idle.set()

    async def _write_batch(self) -> bool:
        """What has queued up while the last batch was written, as one statement; False if that failed."""
        batch = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
        rows = [queued.row for queued in batch]
        lost = self._lost
        if lost:
            rows.append(self._row(AuditLine(action="audit", lost=lost)))
        try:
            await self._database.execute(insert(audit_lines).values(rows))
        except (PorticoError, SQLAlchemyError) as error:
            self._keep(batch, error)
            return False
        except BaseException:
            self._queue.extendleft(reversed(batch))
            raise
        self._lost -= lost
        for queued in batch:
            if not queued.written.done():
                queued.written.set_result(None)
        return True

    def _keep(self, batch: list[_Queued], error: Exception) -> None:
        """Of a batch that failed, the lines of changes that have happened; the others' changes are refused."""
        why = getattr(error, "cause", None) or str(error)
        for queued in reversed(batch):
            if not queued.required:
                self._queue.appendleft(queued)
                continue
            self._lose(why)
            if not queued.written.done():
                queued.written.set_exception(unavailable(why))
                queued.written.exception()  # nobody may be waiting any more

    def _lose(self, why: str) -> None:
        self._lost += 1
        self._on_loss(why, self._lost)


def open_trail(
    file: str | None,
    database: Database | None,
    *,
    node: str,
    node_in_file: str,
    required: bool,
    command: bool = False,
    on_loss: OnLoss = log_loss,
) -> AuditTrail:
    """The audit log in `file` (as `open_audit` takes it), in `database`, in both, or nowhere."""
    lines = open_audit(file, required=required, command=command, on_loss=on_loss, node=node_in_file)
    if database is None:
        return AuditTrail(lines)
    return AuditTrail(lines, DatabaseAudit(database, node=node, required=required, on_loss=on_loss))


async def find_lines(
    database: Database,
    *,
    user: str | None = None,
    action: str | None = None,
    since: timedelta | None = None,
    limit: int = 100,
) -> Sequence[dict[str, Any]]:
    """The newest lines that fit, the oldest of them first."""
    query = select(audit_lines.c.line).order_by(audit_lines.c.at.desc(), audit_lines.c.id.desc()).limit(limit)
    if user is not None:
        query = query.where(audit_lines.c.user == user.casefold())
    if action is not None:
        query = query.where(audit_lines.c.action == action)
    if since is not None:
        query = query.where(audit_lines.c.at >= _before(database, since))
    return [msgspec.json.decode(row.line) for row in reversed(await database.fetch(query))]


async def remove_lines(database: Database, older_than: timedelta) -> int:
    """Returns how many there were. Some at a time: meanwhile others write."""
    old = select(audit_lines.c.id).where(audit_lines.c.at < _before(database, older_than)).limit(_REMOVED_AT_ONCE)
    removed = 0
    while count := await database.execute(delete(audit_lines).where(audit_lines.c.id.in_(old)), wait=SWEEP_WAIT):
        removed += count
    return removed


def _before(database: Database, time: timedelta) -> int:
    return database.now() - clock.milliseconds(time)
