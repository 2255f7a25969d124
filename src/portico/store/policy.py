"""Connections, groups and users with their mounts, read together, and changed together or not at all."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Column, Table, select

from portico.model.errors import Changed
from portico.model.reach import MountRule
from portico.store.connections import ConnectionRecord
from portico.store.database import AnyRow, Database
from portico.store.reach import ReachChange, change_reach, rule_of
from portico.store.tables import api_keys, connections, groups, members, mounts, share_links, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

_WAIT = 60
"""Seconds that reading may take: there may be thousands of users."""


class GroupRecord(msgspec.Struct, frozen=True):
    key: str
    name: str
    mounts: tuple[MountRule, ...]
    members: frozenset[str]
    """The keys of their names."""
    expires_at: int | None
    addresses: str
    origin: str | None


class UserRecord(msgspec.Struct, frozen=True):
    key: str
    name: str
    mounts: tuple[MountRule, ...]
    disabled: bool
    expires_at: int | None
    addresses: str
    origin: str | None


class PolicyRecords(msgspec.Struct, frozen=True):
    """Sorted by name, groups in their order, mounts by path."""

    connections: tuple[ConnectionRecord, ...]
    groups: tuple[GroupRecord, ...]
    users: tuple[UserRecord, ...]

    def __eq__(self, other: object) -> bool:
        """Whether both say the same, apart from volumes: Portico detects those itself."""
        if not isinstance(other, PolicyRecords) or (self.groups, self.users) != (other.groups, other.users):
            return False
        return list(map(_unbound, self.connections)) == list(map(_unbound, other.connections))

    __hash__ = None  # type: ignore[assignment]


def _unbound(record: ConnectionRecord) -> ConnectionRecord:
    return msgspec.structs.replace(record, volume_id=None)


async def read_records(database: Database) -> PolicyRecords:
    """All in one snapshot."""
    async with database.snapshot(_WAIT) as connection:
        return await _read(connection)


async def change_records(database: Database, expected: PolicyRecords, work: Callable[[ReachChange], Awaitable[T]]) -> T:
    """The result of `work`, in one transaction. `Changed` if the records are not as `expected`."""

    async def checked(change: ReachChange) -> T:
        if await _read(change.transaction, locked=True) != expected:
            raise Changed("Connections, groups or users have changed in the meantime. Run the command again.")
        return await work(change)

    return await change_reach(database, checked)


async def _read(connection: "AsyncConnection", *, locked: bool = False) -> PolicyRecords:
    async def rows(table: Table, *order: Column[Any]) -> Sequence[AnyRow]:
        query = select(table).order_by(*order)
        # A key share leaves sessions and keys free to refer to users.
        return (await connection.execute(query.with_for_update(key_share=True) if locked else query)).all()

    found = [ConnectionRecord(*row) for row in await rows(connections, connections.c.name)]
    all_users, all_groups = await rows(users, users.c.name_key), await rows(groups, groups.c.position, groups.c.id)
    keys = {row.id: row.name_key for row in all_users}
    joined: dict[int, list[str]] = {}
    for row in await rows(members):
        joined.setdefault(row.group_id, []).append(keys[row.user_id])
    of_users: dict[int, list[MountRule]] = {}
    of_groups: dict[int, list[MountRule]] = {}
    for row in await rows(mounts):
        owner, owned = (row.group_id, of_groups) if row.user_id is None else (row.user_id, of_users)
        owned.setdefault(owner, []).append(rule_of(row))
    return PolicyRecords(
        tuple(found),
        tuple(
            GroupRecord(
                row.name_key,
                row.name,
                _sorted(of_groups.get(row.id, ())),
                frozenset(joined.get(row.id, ())),
                row.expires_at,
                row.addresses,
                row.origin,
            )
            for row in all_groups
        ),
        tuple(
            UserRecord(
                row.name_key,
                row.name,
                _sorted(of_users.get(row.id, ())),
                row.disabled,
                row.expires_at,
                row.addresses,
                row.origin,
            )
            for row in all_users
        ),
    )


def _sorted(rules: Iterable[MountRule]) -> tuple[MountRule, ...]:
    return tuple(sorted(rules, key=lambda rule: rule.path.segments))


class LinkedRecord(NamedTuple):
    """An API key or a share link, which ends with its user or connection."""

    user: str
    """The key of the name."""
    connection: str | None
    what: str
    """The key's name, or the path that is shared."""


async def keys_and_links(database: Database) -> list[LinkedRecord]:
    """All API keys, which have no connection, and all share links that have not ended."""
    of_keys = select(users.c.name_key, api_keys.c.name).join(users, users.c.id == api_keys.c.user_id)
    of_links = (
        select(users.c.name_key, share_links.c.connection, share_links.c.path)
        .join(users, users.c.id == share_links.c.user_id)
        .where(share_links.c.ended_at.is_(None))
    )
    keys = [
        LinkedRecord(row.name_key, None, row.name) for row in await database.fetch(of_keys.order_by(api_keys.c.name))
    ]
    rows = await database.fetch(of_links.order_by(share_links.c.path))
    return keys + [LinkedRecord(row.name_key, row.connection, row.path) for row in rows]
