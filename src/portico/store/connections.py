"""The rows of connections, with their options in JSON and their secrets sealed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import ColumnElement, Table, delete, insert, or_, select, union, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import AlreadyExists, NotFound, NotPossible
from portico.model.rights import Right, parse_rights
from portico.store.cluster import agree_on_sealing
from portico.store.database import Database
from portico.store.tables import connections, groups, members, mounts, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_MAX_NAMES: Final = 5
"""Users and groups named in an error."""


class ConnectionRecord(msgspec.Struct, frozen=True):
    name: str
    kind: str
    options: str
    secrets: bytes | None
    revision: int
    volume_id: str | None
    origin: str | None = None


class ConnectionRecords:
    """One key seals all secrets: with two, each node could read only some of them. `OtherKey` if it is not this `key`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, new: ConnectionRecord, key: str | None) -> None:
        dialect = self._database.dialect
        await self._database.transact(lambda transaction: add_connection(transaction, new, key, dialect))

    async def update(
        self, name: str, changed: Callable[[ConnectionRecord], tuple[ConnectionRecord, str | None]]
    ) -> None:
        """Replace a connection by what `changed` makes of it, with the key that it is sealed with."""

        async def store(transaction: "AsyncConnection") -> None:
            mine = connections.c.name == name
            row = (await transaction.execute(select(connections).where(mine).with_for_update())).first()
            if row is None:
                raise unknown_connection(name)
            await replace_connection(transaction, *changed(ConnectionRecord(*row)), self._database.dialect)

        await self._database.transact(store)

    async def bind(self, name: str, revision: int, volume_id: str) -> str | None:
        """Store the volume id unless there is one, or the connection has changed; returns the stored one."""
        mine = connections.c.name == name, connections.c.revision == revision
        # The revision stays the same: no provider has to be opened again.
        await self._database.execute(
            update(connections).where(*mine, connections.c.volume_id.is_(None)).values(volume_id=volume_id)
        )
        row = await self._database.first(select(connections.c.volume_id).where(*mine))
        return row.volume_id if row else None

    async def row(self, name: str) -> ConnectionRecord:
        row = await self._database.first(select(connections).where(connections.c.name == name))
        if row is None:
            raise unknown_connection(name)
        return ConnectionRecord(*row)

    async def rows(self) -> list[ConnectionRecord]:
        rows = await self._database.fetch(select(connections).order_by(connections.c.name))
        return [ConnectionRecord(*row) for row in rows]

    async def revisions(self) -> dict[str, int]:
        """The revision of every connection: a cheap way to see which have changed."""
        rows = await self._database.fetch(select(connections.c.name, connections.c.revision))
        return {row.name: row.revision for row in rows}

    async def in_use(self) -> dict[str, frozenset[Right]]:
        """The connections with mounts of users who may act, with all rights that these mounts give."""
        now = self._database.now()

        def living(table: Table) -> ColumnElement[bool]:
            return or_(table.c.expires_at.is_(None), table.c.expires_at > now)

        of_users = (
            select(mounts.c.connection, mounts.c.rights)
            .join(users, users.c.id == mounts.c.user_id)
            .where(users.c.disabled.is_(False), living(users))
        )
        of_groups = (
            select(mounts.c.connection, mounts.c.rights)
            .join(groups, groups.c.id == mounts.c.group_id)
            .join(members, members.c.group_id == groups.c.id)
            .join(users, users.c.id == members.c.user_id)
            .where(users.c.disabled.is_(False), living(users), living(groups))
        )
        rights: dict[str, frozenset[Right]] = {}
        for row in await self._database.fetch(union(of_users, of_groups)):
            rights[row.connection] = rights.get(row.connection, frozenset()) | parse_rights(row.rights)
        return rights

    async def delete(self, name: str) -> None:
        if owners := await self._owners(name):
            shown = ", ".join(owners[:_MAX_NAMES]) + (" and others" if len(owners) > _MAX_NAMES else "")
            raise NotPossible(f"The connection {name!r} is used by {shown}; remove or change these mounts first.")
        try:
            deleted = await self._database.execute(delete(connections).where(connections.c.name == name))
        except IntegrityError:  # a mount was added in between
            raise NotPossible(f"The connection {name!r} is in use; remove or change its mounts first.") from None
        if not deleted:
            raise unknown_connection(name)

    async def _owners(self, name: str) -> list[str]:
        """Some users and groups with mounts of a connection."""
        its = mounts.c.connection == name
        found: list[str] = []
        for table, owner, prefix in ((users, mounts.c.user_id, ""), (groups, mounts.c.group_id, "@")):
            query = select(table.c.name).join(mounts, owner == table.c.id).where(its).distinct().order_by(table.c.name)
            rows = await self._database.fetch(query.limit(_MAX_NAMES + 1))
            found += [f"{prefix}{row.name}" for row in rows]
        return found


async def add_connection(transaction: "AsyncConnection", new: ConnectionRecord, key: str | None, dialect: str) -> None:
    if key:
        await agree_on_sealing(transaction, key, dialect)
    try:
        await transaction.execute(insert(connections).values(msgspec.structs.asdict(new)))
    except IntegrityError:
        raise AlreadyExists(f"There is a connection {new.name!r} already; choose another name.") from None


async def replace_connection(
    transaction: "AsyncConnection", new: ConnectionRecord, key: str | None, dialect: str
) -> None:
    if key:
        await agree_on_sealing(transaction, key, dialect)
    own = connections.c.name == new.name
    await transaction.execute(update(connections).where(own).values(msgspec.structs.asdict(new)))


async def remove_connection(transaction: "AsyncConnection", name: str) -> None:
    """Remove a connection that has no mounts."""
    await transaction.execute(delete(connections).where(connections.c.name == name))


async def check_exists(transaction: "AsyncConnection", name: str) -> None:
    """`NotFound` if there is no such connection; locked, where the database can, until the transaction ends."""
    query = select(connections.c.name).where(connections.c.name == name)
    if (await transaction.execute(query.with_for_update(key_share=True, read=True))).first() is None:
        others = await transaction.execute(select(connections.c.name).limit(1))
        raise unknown_connection(name) if others.first() else no_connection()


def unknown_connection(name: str) -> NotFound:
    return NotFound(f"The connection {name[:64]!r} doesn't exist; list all connections with 'portico connection list'.")


def no_connection() -> NotFound:
    return NotFound("There are no connections yet; add one with 'portico connection add NAME --kind KIND' first.")
