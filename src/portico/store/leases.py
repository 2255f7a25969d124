"""Leases: what only one worker of all nodes does at a time, such as a sweep.

A lease ends by itself when its owner vanishes: at once if that was a process of this machine. Its fence, a number that
grows with every owner, identifies the owner: one that is late can neither renew nor release the lease of the next.
"""

import os
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from typing import Final

from sqlalchemy import BigInteger, and_, case, delete, literal_column, select, update

from portico.model.errors import PorticoError
from portico.runtime import clock, processes
from portico.runtime.processes import ProcessState
from portico.store.database import Database, upsert
from portico.store.heartbeats import Renewals
from portico.store.tables import leases

LIFETIME: Final = timedelta(seconds=60)
"""How long a lease outlives an owner that vanished on another machine."""
_KEPT: Final = timedelta(hours=1)
"""How long an expired lease is kept."""
_MAX_NAME: Final = 64
"""Longer names are stored as their digest."""
_RENEWALS: Final = 3
"""In each lifetime, so that one may fail."""

_NEW_FENCE = literal_column("excluded.fence", BigInteger)
_TAKEN_OVER = {
    "owner": literal_column("excluded.owner"),
    "fence": case((leases.c.fence >= _NEW_FENCE, leases.c.fence + 1), else_=_NEW_FENCE),
    "expires_at": literal_column("excluded.expires_at", BigInteger),
}


class Lease:
    """A lease of this process, renewed until it is released."""

    def __init__(self, database: Database, renewals: Renewals["Lease"], name: str, fence: int) -> None:
        self.name = name
        self.fence = fence
        self._database = database
        self._renewals = renewals
        renewals.add(self)

    async def release(self) -> None:
        await self._renewals.remove(self)
        mine = and_(leases.c.name == self.name, leases.c.fence == self.fence)
        with suppress(PorticoError):  # then it expires
            await self._database.execute(delete(leases).where(mine), durable=False)


class Leases:
    def __init__(self, database: Database, node: str, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._owner = f"{node[:40]}/{processes.name_of(os.getpid())}-{secrets.token_hex(4)}"
        self._lifetime = lifetime
        self._renewals = Renewals("lease", lifetime / _RENEWALS, self._renew)

    async def _renew(self, held: Sequence[Lease]) -> list[Lease]:
        mine = and_(
            leases.c.owner == self._owner,
            leases.c.name.in_([lease.name for lease in held]),
            leases.c.fence.in_([lease.fence for lease in held]),
        )
        end = self._database.now() + clock.milliseconds(self._lifetime)
        statement = update(leases).where(mine).values(expires_at=end).returning(leases.c.name, leases.c.fence)
        kept = {(row.name, row.fence) for row in await self._database.write(statement, durable=False)}
        return [lease for lease in held if (lease.name, lease.fence) in kept]

    async def acquire(self, name: str) -> Lease | None:
        """The lease, or None if another owner has it."""
        now = self._database.now()
        if len(name) > _MAX_NAME:
            name = sha256(name.encode()).hexdigest()
        row = {
            "name": name,
            "owner": self._owner,
            "fence": now,  # and not 1, so that it grows even after the row was deleted
            "expires_at": now + clock.milliseconds(self._lifetime),
        }
        statement = upsert(self._database.dialect, leases, _TAKEN_OVER, where=leases.c.expires_at <= now)
        taking = statement.values(row).returning(leases.c.fence)
        found = await self._database.write(taking, durable=False)
        if not found and await self._end_abandoned(name):
            found = await self._database.write(taking, durable=False)
        return Lease(self._database, self._renewals, name, found[0].fence) if found else None

    async def _end_abandoned(self, name: str) -> bool:
        """End the lease if its owner was a process of this machine that has ended."""
        row = await self._database.first(select(leases).where(leases.c.name == name))
        if row is None or processes.state_of(row.owner.rpartition("/")[2]) is not ProcessState.ENDED:
            return False
        its = and_(leases.c.name == name, leases.c.fence == row.fence)
        await self._database.execute(update(leases).where(its).values(expires_at=0), durable=False)
        return True

    async def sweep(self) -> None:
        """Remove the leases of owners that vanished long ago."""
        end = self._database.now() - clock.milliseconds(_KEPT)
        await self._database.execute(delete(leases).where(leases.c.expires_at <= end))

    @asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[Lease | None]:
        """The lease, released at the end; None if another owner has it."""
        lease = await self.acquire(name)
        try:
            yield lease
        finally:
            if lease is not None:
                await lease.release()
