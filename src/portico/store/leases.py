"""Leases: what only one worker of all nodes does at a time, such as a sweep.

A lease ends by itself when its owner vanishes. Its fence, a number that grows with every owner, lets a late owner be
refused.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from sqlalchemy import Update, literal_column, update

from portico.errors import PorticoError
from portico.store.database import Database, upsert
from portico.store.tables import leases

LIFETIME: Final = timedelta(seconds=60)
"""How long a lease outlives an owner that vanished."""
_RENEWALS: Final = 3
"""In each lifetime, so that one may fail."""


class Leases:
    def __init__(self, database: Database, node: str, lifetime: timedelta = LIFETIME) -> None:
        self._database = database
        self._owner = f"{node}/{secrets.token_hex(8)}"
        self._lifetime = lifetime

    @asynccontextmanager
    async def held(self, name: str) -> AsyncGenerator[int | None]:
        """The fence of the lease, which is renewed until the context ends; None if another worker holds it."""
        fence = await self._acquire(name)
        if fence is None:
            yield None
            return
        renewing = asyncio.create_task(self._renew(name, fence))
        try:
            yield fence
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            with suppress(PorticoError):  # then it expires
                await self._database.execute(_mine(name, fence).values(expires_at=0))

    async def _acquire(self, name: str) -> int | None:
        now = self._database.now()
        taken = upsert(
            self._database.dialect,
            leases,
            {
                "owner": self._owner,
                "fence": leases.c.fence + 1,
                "expires_at": literal_column("excluded.expires_at"),
            },
            where=leases.c.expires_at <= now,
        )
        row = {"name": name, "owner": self._owner, "fence": 1, "expires_at": self._end()}
        returned = await self._database.write(taken.values(row).returning(leases.c.fence))
        return returned[0].fence if returned else None

    async def _renew(self, name: str, fence: int) -> None:
        while True:
            await asyncio.sleep(self._lifetime.total_seconds() / _RENEWALS)
            with suppress(PorticoError):
                await self._database.execute(_mine(name, fence).values(expires_at=self._end()))

    def _end(self) -> int:
        return self._database.now() + self._lifetime // timedelta(milliseconds=1)


def _mine(name: str, fence: int) -> Update:
    return update(leases).where(leases.c.name == name, leases.c.fence == fence)
