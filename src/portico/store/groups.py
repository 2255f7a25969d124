"""Groups, their order, and their members."""

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_network
from typing import Any, Final

import msgspec
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import AlreadyExists, NotPossible
from portico.runtime import clock
from portico.store.database import AnyRow, Database
from portico.store.mounts import unknown_group, unknown_user
from portico.store.reach import Network, ReachChange, batches
from portico.store.tables import groups, members, users

MAX_GROUPS: Final = 1000


class Group(msgspec.Struct, frozen=True):
    name: str
    members: tuple[str, ...]
    """The users' names, by their keys."""
    expires_at: datetime | None = None
    addresses: tuple[Network, ...] = ()


class GroupRecords:
    """Groups are found by the key of their name, and are always in their order: an earlier group wins over a later one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> builtins.list[Group]:
        query = (
            select(members.c.group_id, users.c.name)
            .join(users, users.c.id == members.c.user_id)
            .order_by(users.c.name_key)
        )
        names: dict[int, list[str]] = {}
        rows = await self._database.fetch(select(groups).order_by(groups.c.position, groups.c.id))
        for row in await self._database.fetch(query):
            names.setdefault(row.group_id, []).append(row.name)
        return [_group_of(row, names.get(row.id, ())) for row in rows]

    async def find(self, key: str) -> Group | None:
        row = await self._database.first(select(groups).where(groups.c.name_key == key))
        if row is None:
            return None
        query = select(users.c.name).join(members, members.c.user_id == users.c.id).where(members.c.group_id == row.id)
        found = await self._database.fetch(query.order_by(users.c.name_key))
        return _group_of(row, [each.name for each in found])

    async def of_user(self, user_id: int) -> builtins.list[str]:
        query = select(groups.c.name).join(members, members.c.group_id == groups.c.id)
        rows = await self._database.fetch(query.where(members.c.user_id == user_id).order_by(groups.c.position))
        return [row.name for row in rows]


async def add_group(change: ReachChange, values: Mapping[str, Any]) -> None:
    """Add a group after all others."""
    counted = select(func.count().label("number"), func.max(groups.c.position).label("last")).select_from(groups)
    row = (await change.transaction.execute(counted)).one()
    if row.number >= MAX_GROUPS:
        raise NotPossible(f"There can be at most {MAX_GROUPS} groups; delete one of them first.")
    try:
        await change.transaction.execute(insert(groups).values({**values, "position": (row.last or 0) + 1}))
    except IntegrityError:
        raise taken(values["name"]) from None


async def set_group(change: ReachChange, key: str, values: Mapping[str, Any]) -> None:
    group = await _found(change, key)
    try:
        await change.transaction.execute(update(groups).where(groups.c.id == group.id).values(dict(values)))
    except IntegrityError:
        raise taken(values["name"]) from None
    await change.recompile_group(group.id)


async def place_group(change: ReachChange, key: str, before: str | None) -> None:
    """Put a group before another one; None puts it last."""
    rows = (await change.transaction.execute(select(groups).order_by(groups.c.position, groups.c.id))).all()
    keys = [row.name_key for row in rows]
    for wanted in (key, before):
        if wanted is not None and wanted not in keys:
            raise unknown_group(wanted)
    keys.remove(key)
    keys.insert(len(keys) if before is None or before == key else keys.index(before), key)
    await order_groups(change, keys)


async def order_groups(change: ReachChange, keys: Sequence[str]) -> None:
    """Put the groups in this order. Other groups follow in their present order."""
    rows = (await change.transaction.execute(select(groups).order_by(groups.c.position, groups.c.id))).all()
    rank = {key: number for number, key in enumerate(keys)}
    moved = []
    for position, row in enumerate(sorted(rows, key=lambda row: rank.get(row.name_key, len(rank))), 1):
        if row.position != position:
            moved.append(row.id)
            statement = update(groups).where(groups.c.id == row.id).values(position=position)
            await change.transaction.execute(statement)
    await change.recompile_groups(moved)


async def delete_group(change: ReachChange, key: str) -> None:
    """With its mounts; its members stay."""
    group = await _found(change, key)
    await change.recompile_group(group.id)
    await change.transaction.execute(delete(groups).where(groups.c.id == group.id))


async def join_group(change: ReachChange, key: str, user_keys: Collection[str]) -> None:
    """Users who are already members stay members."""
    group = await _found(change, key)
    ids = (await user_ids(change, user_keys)).values()
    known = select(members.c.user_id).where(members.c.group_id == group.id)
    there = {row.user_id for row in await change.transaction.execute(known)}
    rows = [{"group_id": group.id, "user_id": each} for each in ids if each not in there]
    if rows:
        await change.transaction.execute(insert(members), rows)
    change.recompile_users(ids)


async def leave_group(change: ReachChange, key: str, user_keys: Collection[str]) -> None:
    group = await _found(change, key)
    ids = (await user_ids(change, user_keys)).values()
    for user_id in ids:
        its = members.c.group_id == group.id, members.c.user_id == user_id
        if not (await change.transaction.execute(delete(members).where(*its))).rowcount:
            query = select(users.c.name).where(users.c.id == user_id)
            name = (await change.transaction.execute(query)).scalar_one()
            raise NotPossible(f"'{name}' is not a member of the group '{group.name}'.")
    change.recompile_users(ids)


async def _found(change: ReachChange, key: str) -> AnyRow:
    row = (await change.transaction.execute(select(groups).where(groups.c.name_key == key))).first()
    if row is None:
        raise unknown_group(key)
    return row


async def user_ids(change: ReachChange, keys: Iterable[str]) -> dict[str, int]:
    """The ids by the keys; `NotFound` if one of the users doesn't exist."""
    wanted = list(dict.fromkeys(keys))
    ids: dict[str, int] = {}
    for some in batches(wanted):
        query = select(users.c.name_key, users.c.id).where(users.c.name_key.in_(some))
        ids |= {row.name_key: row.id for row in await change.transaction.execute(query)}
    for key in wanted:
        if key not in ids:
            raise unknown_user(key)
    return ids


def _group_of(row: AnyRow, names: Iterable[str]) -> Group:
    return Group(
        row.name,
        tuple(names),
        None if row.expires_at is None else clock.to_datetime(row.expires_at),
        tuple(map(ip_network, row.addresses.split())),
    )


def taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"The group {name!r} already exists; choose another name.")
