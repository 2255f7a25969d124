"""What all nodes that share a database must agree on, by name."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.store.database import Database, upsert
from portico.store.schema import LAST_BACKUP, OLDEST_CODE
from portico.store.tables import cluster

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

KEY: Final = "secret-key"
CLUSTER_KEY: Final = select(cluster.c.value).where(cluster.c.name == KEY).scalar_subquery()
SAME_VALUE: Final = update(cluster).where(cluster.c.name == OLDEST_CODE).values(value=cluster.c.value)
"""A write that changes nothing."""
_AGREED = cluster.c.name.not_in((OLDEST_CODE, LAST_BACKUP))
"""Not the row that belongs to the schema, nor the one that a backup writes."""


class OtherKey(Exception):
    """Credentials are sealed with another key already."""


class ClusterRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def identity(self) -> dict[str, str]:
        return {row.name: row.value for row in await self._database.fetch(select(cluster).where(_AGREED))}

    async def add(self, name: str, value: str) -> None:
        with suppress(IntegrityError):  # another node was faster
            await self._database.execute(insert(cluster).values(name=name, value=value))

    async def forget(self) -> None:
        """Let the next start decide anew."""
        await self._database.execute(delete(cluster).where(_AGREED))

    async def note_backup(self, at: int) -> None:
        """Note when a backup was made, in seconds since 1970."""
        statement = upsert(self._database.dialect, cluster, {"value": str(at)})
        await self._database.execute(statement.values(name=LAST_BACKUP, value=str(at)))

    async def last_backup(self) -> int:
        """When the last backup was made, in seconds since 1970; 0 if none was."""
        row = await self._database.first(select(cluster.c.value).where(cluster.c.name == LAST_BACKUP))
        return int(row.value) if row else 0


async def agree_on_sealing(transaction: "AsyncConnection", fingerprint: str, dialect: str) -> None:
    """Make this key the one that credentials are sealed with; `OtherKey` if there is another one.

    As part of the transaction that stores what was sealed, no failure leaves one without the other.
    """
    statement = upsert(dialect, cluster, {"name": cluster.c.name}).values(name=KEY, value=fingerprint)
    known = (await transaction.execute(statement.returning(cluster.c.value))).scalar_one()
    if known != fingerprint:
        raise OtherKey
