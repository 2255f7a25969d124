"""Leases: what only one worker of all nodes does at a time, such as a sweep."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from typing import Final

from sqlalchemy import bindparam, delete, select

from portico.model.errors import PorticoError
from portico.runtime import clock
from portico.runtime.processes import has_ended
from portico.store.database import Database, upsert
from portico.store.ownership import TAKEN_OVER, Owned, Ownership, is_free, is_mine
from portico.store.tables import leases

LIFETIME: Final = timedelta(seconds=60)
"""How long a lease outlives an owner that vanished on another machine."""
_KEPT: Final = timedelta(hours=1)
"""How long an expired lease is kept."""
_MAX_NAME: Final = 64
"""Longer names are stored as their digest."""
_RENEWALS: Final = 3
"""In each lifetime, so that one may fail."""


class Lease(Owned):
    async def release(self) -> None:
        await self.let_go()
        with suppress(PorticoError):  # then it expires
            mine = delete(leases).where(is_mine(leases))
            await self._rows.database.execute(mine, self.me, durable=False)


class Leases(Ownership[Lease]):
    def __init__(self, database: Database, node: str, lifetime: timedelta = LIFETIME) -> None:
        super().__init__(database, leases, "lease", node, lifetime=lifetime, renewal=lifetime / _RENEWALS)
        taking = upsert(database.dialect, leases, TAKEN_OVER, where=is_free(leases))
        taking = taking.values({name: bindparam(name) for name in ("name", "owner", "owned_until")})
        self._taking = taking.returning(leases.c.name)

    async def acquire(self, name: str) -> Lease | None:
        if len(name) > _MAX_NAME:
            name = sha256(name.encode()).hexdigest()
        dead = None
        for _ in range(2):
            claim = self.new_claim()
            values = {"name": name, **claim, "now": self.database.now(), "dead": dead}
            if await self.database.write(self._taking, values, durable=False):
                return Lease(self, name, claim)
            row = await self.database.first(select(leases).where(leases.c.name == name))
            if row is None or not has_ended(row.owner):
                return None
            dead = row.owner
        return None

    async def sweep(self) -> None:
        """Remove the leases of owners that vanished long ago."""
        end = self.database.now() - clock.milliseconds(_KEPT)
        await self.database.execute(delete(leases).where(leases.c.owned_until <= end))

    @asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[Lease | None]:
        """The lease, released at the end; None if another owner has it."""
        lease = await self.acquire(name)
        try:
            yield lease
        finally:
            if lease is not None:
                await lease.release()
