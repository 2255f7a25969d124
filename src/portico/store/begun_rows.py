"""`BegunRows`: changes that have begun, as rows of PostgreSQL.

The process holds one lease for all of its changes. Another node finds those whose lease has expired.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import Final

import msgspec
from sqlalchemy import Connection, delete, select, text, update

from portico.model.errors import PorticoError
from portico.observability.audit import unavailable
from portico.runtime import clock
from portico.runtime.batches import Batches
from portico.runtime.processes import has_ended
from portico.store.begun_changes import Noted
from portico.store.database import Database, insert_new
from portico.store.leases import Lease, Leases
from portico.store.ownership import NOBODY
from portico.store.tables import changes_begun, leases

_BATCH: Final = 200
_LEASE: Final = timedelta(seconds=30)
_CONFIRMED_AFTER: Final = timedelta(seconds=12)
"""Leases are renewed more often than that."""
_LONG_EXPIRED: Final = timedelta(minutes=5)
"""A command looks only once."""
_NAMES: Final = ", ".join(changes_begun.c.keys())
_ADDING: Final = text(
    # In one round trip, and the disk is not waited for.
    f"INSERT INTO changes_begun ({_NAMES}) SELECT {_NAMES} "  # noqa: S608
    "FROM json_populate_recordset(NULL::changes_begun, CAST(:rows AS json)) "
    "WHERE (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL"
)
"""For PostgreSQL."""


class BegunRows:
    """In the table `changes_begun`, from which the transaction that settles a change deletes it."""

    def __init__(self, database: Database, node: str) -> None:
        self._database = database
        self._leases = Leases(database, node, _LEASE)
        self._lease: Lease | None = None
        self._leasing = asyncio.Lock()
        self._batches = Batches(self._write, most=_BATCH, pause=0, retry=0)
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._expired: dict[str, tuple[int, float]] = {}
        """Leases that have expired, with that time, and when this process has seen it first."""

    async def begin(self, change: Noted) -> None:
        change.owner = await self._owner()
        written = self._waiting[change.id] = asyncio.get_running_loop().create_future()
        self._batches.put(change, urgent=True)
        await written

    async def _write(self, batch: Sequence[Noted]) -> Sequence[Noted]:
        refused: Exception | None = None
        try:
            if self._database.dialect == "postgresql":
                await self._database.execute(_ADDING, {"rows": msgspec.json.encode(batch).decode()})
            else:
                rows = [msgspec.structs.asdict(change) for change in batch]
                await self._database.at_once(partial(insert_new, table=changes_begun, rows=rows), durable=False)
        except PorticoError as error:
            refused = unavailable(error.cause or str(error))
        except Exception as error:  # a bug must neither let a change begin without its row nor stop all later ones
            refused = error
        for change in batch:
            written = self._waiting.pop(change.id)
            if written.done():
                continue
            if refused:
                written.set_exception(refused)
            else:
                written.set_result(None)
        return ()

    def end(self, change: Noted) -> None:
        """The row is queued, and a look at the storage finds the same if the process dies meanwhile."""

    def remove(self, connection: Connection, ids: Sequence[str]) -> None:
        if ids:
            connection.execute(delete(changes_begun).where(changes_begun.c.id.in_(ids)))

    def forget(self, ids: Sequence[str]) -> None:
        """They were deleted."""

    async def let_go(self, change: Noted) -> None:
        mine = update(changes_begun).where(changes_begun.c.id == change.id)
        with suppress(PorticoError):  # then the lease expires
            await self._database.execute(mine.values(owner=NOBODY), durable=False)

    async def left(self, limit: int) -> list[Noted]:
        owners = [row.owner for row in await self._database.fetch(select(changes_begun.c.owner).distinct())]
        if not owners:
            return []
        held = await self._database.fetch(select(leases).where(leases.c.owner.in_(owners)))
        alive = {row.owner for row in held if not self._is_gone(row.owner, row.owned_until)}
        self._expired = {owner: seen for owner, seen in self._expired.items() if owner in alive}
        gone = [owner for owner in owners if owner not in alive]
        if not gone:
            return []
        theirs = changes_begun.c.owner.in_(gone)
        names = await self._database.fetch(select(changes_begun.c.connection).where(theirs).distinct())
        found: list[Noted] = []
        for row in names:
            query = select(changes_begun).where(theirs, changes_begun.c.connection == row.connection)
            query = query.order_by(changes_begun.c.at).limit(max(1, limit // len(names)))
            found += [Noted(**each._mapping) for each in await self._database.fetch(query)]
        return found

    def _is_gone(self, owner: str, until: int) -> bool:
        """After a failure of the database, all leases have expired: those who live renew them soon, so a second look decides."""
        now = self._database.now()
        if has_ended(owner) or until < now - clock.milliseconds(_LONG_EXPIRED):
            return True
        if until > now:
            return False
        seen_until, since = self._expired.setdefault(owner, (until, clock.uptime()))
        if seen_until != until:
            self._expired[owner] = until, clock.uptime()
            return False
        return clock.uptime() - since > _CONFIRMED_AFTER.total_seconds()

    async def close(self) -> None:
        await self._batches.close(0)
        if self._lease is not None:
            await self._lease.release()

    async def _owner(self) -> str:
        if self._lease is None or not self._lease.is_held:
            async with self._leasing:
                if self._lease is None or not self._lease.is_held:
                    self._lease = await self._leases.acquire(f"journal:{token_hex(8)}")
        assert self._lease, "nobody else takes a lease of this name"
        return self._lease.owner
