"""A user's reach, compiled: the mounts and limits that hold for the user, in one column, so that a session's lookup reads
them with the user's row.

Whoever changes a mount, a group, its members, their order, or a limit does it in a `ReachChange`: it ends with all users
concerned compiled again, in the same transaction, and one such change waits for another.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from sqlalchemy import bindparam, select, text, update

from portico.model.errors import NotPossible
from portico.model.paths import Path, Place
from portico.model.reach import Mount, MountRule, Reach, reach_of, strictest
from portico.model.rights import format_rights, parse_rights
from portico.runtime import clock
from portico.store.database import AnyRow, Database
from portico.store.tables import groups, members, mounts, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")
Network = IPv4Network | IPv6Network

MAX_TREE: Final = 500
"""Mounts in the tree of one user, those of all groups included."""

_LOCK: Final = 0x7265616368  # "reach"
_AT_ONCE: Final = 500
"""Users that are compiled together."""
_WAIT: Final = 60
"""Seconds that a change may take, and wait for others: a group of 10,000 members takes two or three."""
_CACHED: Final = 1000
"""Trees that need not be read again: 4 µs for a user with one mount instead of 20."""


class CompiledReach(msgspec.Struct, frozen=True):
    """A user's tree, and the strictest of the user's own limits and those of the groups."""

    reach: Reach
    expires_at: datetime | None
    addresses: tuple[tuple[Network, ...], ...]
    """The client's address must be in one range of each."""


class _Compiled(msgspec.Struct, omit_defaults=True):
    mounts: list[tuple[str, str, str, str, str | None]]
    """Each with its path, connection, folder, rights, and group."""
    expires_at: int | None = None
    addresses: list[list[str]] = []


_rights = lru_cache(256)(parse_rights)  # few mounts differ in them
_decode = msgspec.json.Decoder(_Compiled).decode
_encode = msgspec.json.Encoder().encode


@lru_cache(_CACHED)
def read_compiled(compiled: str) -> CompiledReach:
    found = _decode(compiled)
    return CompiledReach(
        Reach(
            Mount(Path.parse(path), Place(connection, Path.parse(folder)), _rights(rights), group)
            for path, connection, folder, rights, group in found.mounts
        ),
        None if found.expires_at is None else clock.to_datetime(found.expires_at),
        tuple(tuple(map(ip_network, ranges)) for ranges in found.addresses),
    )


def _compile(user: AnyRow, own: Iterable[MountRule], joined: Sequence[AnyRow], rules: "_Rules") -> str:
    reach = reach_of(user.name, own, [(group.name, rules.get(group.id, ())) for group in joined])
    if len(reach.mounts) > MAX_TREE:
        raise NotPossible(
            f"The tree of '{user.name}' would have {len(reach.mounts)} mounts, those of groups included; "
            f"it can have at most {MAX_TREE}."
        )
    each = (user, *joined)
    end, addresses = strictest((row.expires_at for row in each), (row.addresses.split() for row in each))
    compiled = _Compiled(
        [
            (str(mount.path), mount.place.connection, str(mount.place.path), format_rights(mount.rights), mount.group)
            for mount in reach.mounts
        ],
        end,
        addresses,
    )
    return _encode(compiled).decode()


class ReachChange:
    """A transaction that may change who reaches what. No other one runs at the same time."""

    def __init__(self, transaction: "AsyncConnection") -> None:
        self.transaction = transaction
        self._users: set[int] = set()

    def recompile_users(self, ids: Iterable[int]) -> None:
        """Compile the reach of these users again at the end."""
        self._users.update(ids)

    async def recompile_group(self, group_id: int) -> None:
        """As `recompile_users`, for the group's present members: call it before members leave and after others join."""
        await self.recompile_groups([group_id])

    async def recompile_groups(self, ids: Iterable[int]) -> None:
        for some in batches(sorted(set(ids))):
            rows = await self.transaction.execute(
                select(members.c.user_id).where(members.c.group_id.in_(some)).distinct()
            )
            self._users.update(row.user_id for row in rows)

    async def compile(self) -> None:
        """Bring the reach of all users concerned up to date. Called at the end of the transaction."""
        ids, self._users = sorted(self._users), set()
        for some in batches(ids):
            await self._compile(some)

    async def _compile(self, ids: list[int]) -> None:
        execute = self.transaction.execute
        found = (await execute(select(users).where(users.c.id.in_(ids)).order_by(users.c.id))).all()
        joined: dict[int, list[AnyRow]] = {}
        query = (
            select(members.c.user_id, groups)
            .join(groups, groups.c.id == members.c.group_id)
            .where(members.c.user_id.in_(ids))
            .order_by(groups.c.position, groups.c.id)
        )
        for row in await execute(query):
            joined.setdefault(row.user_id, []).append(row)
        own = _rules((await execute(select(mounts).where(mounts.c.user_id.in_(ids)))).all(), "user_id")
        of_groups = sorted({row.id for rows in joined.values() for row in rows})
        shared: _Rules = {}
        for some in batches(of_groups):
            rows = (await execute(select(mounts).where(mounts.c.group_id.in_(some)))).all()
            shared |= _rules(rows, "group_id")
        changed = []
        for user in found:
            compiled = _compile(user, own.get(user.id, ()), joined.get(user.id, ()), shared)
            if compiled != user.reach:
                changed.append({"of_user": user.id, "compiled": compiled})
        if changed:
            statement = update(users).where(users.c.id == bindparam("of_user")).values(reach=bindparam("compiled"))
            await execute(statement, changed)


_Rules = dict[int, list[MountRule]]


def _rules(rows: Iterable[AnyRow], owner: str) -> _Rules:
    found: _Rules = {}
    for row in rows:
        found.setdefault(getattr(row, owner), []).append(rule_of(row))
    return found


def rule_of(row: AnyRow) -> MountRule:
    """The mount in a row of the table."""
    return MountRule(Path.parse(row.path), row.connection, row.folder, parse_rights(row.rights))


def batches(items: list[T]) -> Iterator[list[T]]:
    """Few enough at a time for a query to name them all."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


async def change_reach(database: Database, work: Callable[[ReachChange], Awaitable[T]]) -> T:
    """The result of `work`, in one transaction that ends with the reach of all users concerned compiled again.

    If `work` raises, or a mount cannot be had as it is, nothing was changed.
    """

    async def alone(transaction: "AsyncConnection") -> T:
        if database.dialect == "postgresql":  # SQLite has one writer
            await transaction.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        change = ReachChange(transaction)
        result = await work(change)
        await change.compile()
        return result

    return await database.transact(alone, wait=_WAIT)
