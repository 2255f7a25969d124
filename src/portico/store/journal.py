"""The journal: one row for each change, sign-in and administrative change that has ended.

A change of files is noted from right before its commit until it is settled (`begun_changes`); what a process that was killed
has begun, another one settles by a look at the storage. Rows of all requests that wait are written together. The lines go to
the audit log's file, too, if there is one.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, select, text

from portico.model.errors import PorticoError, TableMissing
from portico.model.paths import Place
from portico.model.versions import Version
from portico.observability.audit import CHECKPOINT, Audit, AuditLine, OnLoss, encode, log_loss, unavailable
from portico.runtime.batches import Batches
from portico.store.begun_changes import BegunChanges, BegunFiles, Noted
from portico.store.database import Database, insert_new
from portico.store.journal_chain import Chain
from portico.store.recordings import BegunChange, Recording
from portico.store.signatures import Signer
from portico.store.tables import connections, journal, trash
from portico.store.trash import Trashed

MAX_QUEUED: Final = 10_000
"""Rows that wait for the database; further ones are lost, or their changes refused."""
_BATCH: Final = 200
_PAUSE_SECONDS: Final = 0.25
"""How long a row may wait for others if no request waits for it."""
_GATHER_SECONDS: Final = 0.002
"""The same for a row that a request waits for, while other changes are under way."""
_GATHER_AT_MOST: Final = 0.02
"""With PostgreSQL, half as long as the last batch took to write: all processes take turns, and each has five round trips."""
_RETRY_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0
_LEFT_AT_ONCE: Final = 1000
_TRASH: Final = ", ".join(f'"{name}"' for name in trash.c.keys())  # noqa: SIM118
_IN_TURN: Final = text(
    "WITH settled AS (DELETE FROM changes_begun WHERE id = ANY(:changes)), "  # noqa: S608
    f"kept AS (INSERT INTO trash ({_TRASH}) "
    f"SELECT {_TRASH} FROM json_populate_recordset(NULL::trash, CAST(:kept AS json)) "
    "WHERE connection IN (SELECT name FROM connections) ON CONFLICT DO NOTHING) "
    f"SELECT pg_advisory_xact_lock({0x706F727469636F})"
)
"""For PostgreSQL: all in one round trip. From here on, one transaction at a time, so that they are committed in the order of
their numbers."""
_LINES: Final = msgspec.json.Decoder(AuditLine)
_CONNECTIONS: Final = select(connections.c.name)
_NOTHING: Final[dict[str, Any]] = dict.fromkeys(journal.c.keys())


class _Settled(msgspec.Struct):
    """A row of the journal, and of the trash what belongs to it."""

    row: dict[str, Any]
    kept: list[Trashed] = []
    once: AuditLine | None = None
    """What the file gets, too, if no row had this id."""
    has_begun: bool = False
    """Whether it was noted when it began."""


class _Waiting(msgspec.Struct):
    settled: _Settled
    written: "asyncio.Future[None]"
    is_waited_for: bool
    is_required: bool
    """Whether it is dropped, and what it is about refused, if it cannot be written now."""


class Journal:
    def __init__(
        self,
        database: Database,
        file: Audit | None = None,
        *,
        node: str,
        begun: BegunChanges | None = None,
        is_required: bool = False,
        retries: bool = True,
        on_loss: OnLoss = log_loss,
        signer: Signer | None = None,
    ) -> None:
        """Without a `signer`, rows are in no chain. `is_required`: whether sign-ins and changes are refused while they cannot be recorded. `retries`: whether the row of
        what has happened waits for a database that fails; a command may meet one of an older version, or none."""
        self._database = database
        self.file = file or Audit()
        self._node = node
        self._given = begun
        self._is_required = is_required
        self._retries = retries
        self._on_loss = on_loss
        self._chain = Chain(node, database.now, signer)
        self._under_way = 0
        """Changes that have begun, and will need a row."""
        self._batches = Batches(
            self._write, most=_BATCH, pause=_PAUSE_SECONDS, retry=_RETRY_SECONDS, gather=self._gather
        )
        self._took = 0.0
        """Seconds for which the last batch was written."""
        self._lost = 0
        self._failure = ""
        """Why rows wait: until they are written, no change begins."""
        self._settling: set[str] = set()
        """Changes of other processes whose rows wait."""

    @cached_property
    def _begun(self) -> BegunChanges:
        if self._given:
            return self._given
        if self._database.file:
            return BegunFiles(f"{self._database.file}-begun")
        from portico.store.begun_rows import BegunRows  # slow to import, and a command changes no files

        return BegunRows(self._database, self._node)

    def _gather(self) -> float:
        if not self._under_way:
            return 0
        most = 0 if self._database.file else _GATHER_AT_MOST
        return max(_GATHER_SECONDS, min(self._took / 2, most))

    def now(self) -> int:
        return self._database.now()

    @property
    def queued(self) -> int:
        """Rows that wait for the database."""
        return len(self._batches)

    async def check(self) -> None:
        """`Unavailable` if lines are required and cannot be written now."""
        self.file.check()
        if self._is_required and not (await self._database.state()).writable:
            raise unavailable("the database is read-only")

    # Sign-ins and other changes that concern no files

    async def record(self, line: AuditLine) -> None:
        """For what takes effect only if this returns. Raises `Unavailable` if the line is required and lost."""
        if self._is_required:
            await self._put(_Settled(self._row(line)), is_required=True)  # first: it is the one that may refuse
        self.file.record(line)
        if not self._is_required:
            await self._add(_Settled(self._row(line)))

    async def note(self, line: AuditLine, *, is_waited_for: bool = False) -> None:
        """For what was refused or has happened. Never raises. `is_waited_for`: returns when other processes see it."""
        self.file.end(line)
        await self._add(_Settled(self._row(line)), is_waited_for=is_waited_for or self._is_required)

    def note_once(self, row_id: str, line: AuditLine, place: Place | None) -> bool:
        """For what may have been noted before, here or elsewhere: of one id, there is one row. Waits for nothing. False if
        the line is lost: half of the room is left to the rows of changes."""
        if len(self._batches) >= MAX_QUEUED // 2:
            self._lose("too many lines wait for the database")
            return False
        row = self._row(line) | _places(place, None) | {"change": row_id}
        self._queue(_Settled(row, once=line), is_waited_for=False)
        return True

    # Changes of files

    def recording(self, line: AuditLine) -> Recording:
        return Recording(self, line)

    async def begin(self, recording: Recording) -> None:
        if self._failure:
            raise unavailable(self._failure)
        recording.noted = Noted(
            id=recording.id,
            at=self._database.now(),
            before=_version(recording.before),
            line=encode(recording.line).decode(),
            mark=recording.mark,
            **_places(recording.place, recording.target),
        )
        self._under_way += 1
        await self._begun.begin(recording.noted)

    async def end(self, recording: Recording) -> None:
        """If something was kept, or lines are required, returns when the row is durable, or will be when the database answers."""
        line, change = recording.line, recording.noted
        self.file.end(line)
        if change is None:
            await self._add(_Settled(self._row(line)), is_waited_for=self._is_required)
            return
        self._under_way -= 1
        if recording.place and recording.target is None:
            change.place = str(recording.place.path)  # it may have got another name
        change.before, change.after, change.kept = _version(recording.before), _version(recording.after), recording.kept
        row = self._row(line)
        change.line, change.has_ended = row["line"], True
        self._begun.end(change)
        await self._add(_settled(row, change), is_waited_for=self._is_required or bool(recording.kept))

    async def let_go(self, change: Noted) -> None:
        self._under_way -= 1
        await self._begun.let_go(change)

    async def left_open(self) -> list[BegunChange]:
        """Changes whose processes have vanished or let go of them, as many as are settled at once. Those that had ended are written."""
        left = await self._begun.left(_LEFT_AT_ONCE)
        written = select(journal.c.change).where(journal.c.change.in_([change.id for change in left]))
        known = {row.change for row in await self._database.fetch(written)} if left else set()
        self._begun.forget([*known])
        found = []
        for change in left:
            if change.id in known or change.id in self._settling:
                continue
            if change.has_ended:
                await self._add(_settled(self._row(_LINES.decode(change.line)), change))
            else:
                found.append(BegunChange(change))
        return found

    async def settle(
        self,
        change: BegunChange,
        outcome: str,
        *,
        kept: Sequence[Trashed] = (),
        before: Version | None = None,
        after: Version | None = None,
    ) -> None:
        """Settle a change that another process has begun, unless that was done meanwhile."""
        change.line.outcome = outcome
        noted = msgspec.structs.replace(
            change.noted, before=_version(before or change.before), after=_version(after), kept=[*kept]
        )
        settled = _settled(self._row(change.line), noted)
        settled.once = change.line
        written = self._queue(settled, is_waited_for=True)
        self._settling.add(change.id)
        written.add_done_callback(lambda _: self._settling.discard(change.id))
        await asyncio.shield(written)  # who settles may be cut off, and the row waits all the same

    async def checkpoint(self) -> None:
        """Sign how far the rows of this process go, if there are new ones."""
        if signed := await self._chain.checkpoint(self._database):
            self.file.end(AuditLine(action=CHECKPOINT, checkpoint=signed))

    async def close(self) -> None:
        for _ in await self._batches.close(_CLOSE_SECONDS):
            self._lose("the database didn't respond before the process ended")
        with suppress(PorticoError):
            await self.checkpoint()
        if "_begun" in self.__dict__:
            await self._begun.close()
        self.file.close()

    def _row(self, line: AuditLine) -> dict[str, Any]:
        line.node = self._node
        row = _NOTHING.copy()
        row["at"], row["node"], row["line"] = self._database.now(), self._node, encode(line).decode()
        row["user"] = line.user.casefold() if line.user else None
        row["key"], row["link"] = line.key or None, line.link or None
        row["session"], row["address"] = line.session or None, line.client or None
        row["action"], row["outcome"] = line.action, line.outcome
        return row

    # Writing

    async def _add(self, settled: _Settled, *, is_waited_for: bool = False) -> None:
        """Queue a row that is not given up. It is waited for as long as a request may wait."""
        with suppress(PorticoError):
            written = self._queue(settled, is_waited_for=is_waited_for)
            if is_waited_for:
                await asyncio.wait({written}, timeout=_CLOSE_SECONDS)

    async def _put(self, settled: _Settled, *, is_required: bool = False) -> None:
        await self._queue(settled, is_waited_for=True, is_required=is_required)

    def _queue(self, settled: _Settled, *, is_waited_for: bool, is_required: bool = False) -> "asyncio.Future[None]":
        if len(self._batches) >= MAX_QUEUED:
            self._lose("too many lines wait for the database")
            raise unavailable("too many lines wait for the database")
        waiting = _Waiting(settled, asyncio.get_running_loop().create_future(), is_waited_for, is_required)
        self._batches.put(waiting, urgent=is_waited_for)
        return waiting.written

    async def _write(self, batch: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Returns what has to be tried again."""
        try:
            await self._commit(batch)
        except PorticoError as error:
            return self._kept(batch, error)
        except Exception:
            return await self._write_each(batch)
        return ()

    async def _write_each(self, batch: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """A row that no database takes must not hold up the others."""
        again: list[_Waiting] = []
        for waiting in batch:
            try:
                await self._commit([waiting])
            except PorticoError as error:
                again += self._kept([waiting], error)
            except Exception as error:
                _log().error("bug", exc_info=error)
                self._refuse(waiting, str(error))
        return again

    async def _commit(self, batch: Sequence[_Waiting]) -> None:
        lost, settled = self._lost, [waiting.settled for waiting in batch]
        if lost:
            settled.append(_Settled(self._row(AuditLine(action="audit", lost=lost))))
        changes = [each.row["change"] for each in settled if each.has_begun]

        def work(connection: Connection) -> Sequence[AuditLine]:
            kept = [record for each in settled if not each.once for record in each.kept]
            if connection.dialect.name == "postgresql":
                connection.execute(_IN_TURN, {"changes": changes, "kept": msgspec.json.encode(kept).decode()})
            else:
                self._begun.remove(connection, changes)
                _insert_kept(connection, kept)
            return _insert(connection, settled, self._chain)

        durable = self._chain.signs_next or any(waiting.is_waited_for for waiting in batch)
        began = time.monotonic()
        lines = await self._database.at_once(work, durable=durable)
        self._took = time.monotonic() - began
        self._chain.inserted()
        for line in lines:
            self.file.end(line)
        self._lost -= lost
        self._failure = ""
        if changes:
            self._begun.forget(changes)
        for waiting in batch:
            if not waiting.written.done():
                waiting.written.set_result(None)

    def _kept(self, batch: Sequence[_Waiting], error: PorticoError) -> list[_Waiting]:
        """Of a batch that failed, what has happened; the rest is refused."""
        again = []
        for waiting in batch:
            if self._retries and not waiting.is_required:
                self._failure = error.cause or str(error)
                again.append(waiting)
            elif waiting.is_required or not isinstance(error, TableMissing):
                self._refuse(waiting, error.cause or str(error))
        return again

    def _refuse(self, waiting: _Waiting, why: str) -> None:
        self._lose(why)
        if not waiting.written.done():
            waiting.written.set_exception(unavailable(why))
            waiting.written.exception()  # the request may have given up

    def _lose(self, why: str) -> None:
        self._lost += 1
        self._on_loss(why, self._lost)


def _log() -> Any:
    import structlog  # slow to import, and commands record changes too

    return structlog.get_logger()


def _settled(row: dict[str, Any], change: Noted) -> _Settled:
    row["change"] = change.id
    for name in ("connection", "place", "to_connection", "target", "before", "after"):
        row[name] = getattr(change, name)
    if change.kept:
        row["kept"] = change.kept[0].id
    return _Settled(row, change.kept, has_begun=True)


def _insert_kept(connection: Connection, kept: Sequence[Trashed]) -> None:
    if kept:
        there = {*connection.execute(_CONNECTIONS).scalars()}  # one may have been deleted meanwhile
        if rows := [msgspec.structs.asdict(record) for record in kept if record.connection in there]:
            insert_new(connection, trash, rows)


def _insert(connection: Connection, settled: Sequence[_Settled], chain: Chain) -> Sequence[AuditLine]:
    """What has ended gets its numbers. What is there stays.

    Returns the lines that are there only once, and that are new.
    """
    if once := [each.row["change"] for each in settled if each.once]:
        known = {*connection.execute(select(journal.c.change).where(journal.c.change.in_(once))).scalars()}
        settled = [*_new(settled, known)]
        _insert_kept(connection, [record for each in settled if each.once for record in each.kept])
    chain.insert(connection, [each.row for each in settled])
    return [each.once for each in settled if each.once]


def _new(settled: Sequence[_Settled], known: set[str]) -> Iterator[_Settled]:
    for each in settled:
        if each.once:
            if each.row["change"] in known:
                continue
            known.add(each.row["change"])
        yield each


def _places(place: Place | None, target: Place | None) -> dict[str, Any]:
    return {
        "connection": place and place.connection,
        "place": place and str(place.path),
        "to_connection": target and target.connection,
        "target": target and str(target.path),
    }


def _version(value: Version | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
