"""The mounts of users and groups, as an administrator gave them."""

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import AlreadyExists, NotFound, NotPossible
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import format_rights
from portico.store.connections import check_exists
from portico.store.database import AnyRow, Database
from portico.store.reach import ReachChange, rule_of
from portico.store.tables import groups, mounts, users

if TYPE_CHECKING:
    from sqlalchemy import Select

MAX_MOUNTS: Final = 200
"""Mounts of one user or one group."""


class Owner(msgspec.Struct, frozen=True):
    """The owner of a mount: a user, or a group for all its members."""

    name: str
    key: str
    """The form in which names are compared."""
    is_group: bool = False

    def __str__(self) -> str:
        return f"@{self.name}" if self.is_group else self.name


class OwnedMount(msgspec.Struct, frozen=True):
    owner: str
    """The name; a group's has an `@` before it."""
    rule: MountRule


_BY_OWNER: Final["Select[tuple[str | None, str | None]]"] = (
    select(users.c.name.label("user_name"), groups.c.name.label("group_name"), *mounts.c)
    .select_from(mounts)
    .join(users, users.c.id == mounts.c.user_id, isouter=True)
    .join(groups, groups.c.id == mounts.c.group_id, isouter=True)
    .order_by(groups.c.position, users.c.name_key, mounts.c.id)
)


class MountRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> builtins.list[OwnedMount]:
        """Those of users, then those of groups in their order; each owner's by path."""
        found: dict[tuple[bool, str], builtins.list[OwnedMount]] = {}
        for row in await self._database.fetch(_BY_OWNER):
            mount = _owned(row)
            found.setdefault((row.group_id is not None, mount.owner), []).append(mount)
        owners = sorted(found, key=lambda owner: owner[0])  # stable
        return [mount for owner in owners for mount in _by_path(found[owner])]

    async def of(self, owner: Owner) -> builtins.list[OwnedMount]:
        """By path; `NotFound` if the user or group doesn't exist."""
        table = _table_of(owner)
        if await self._database.first(select(table.c.id).where(table.c.name_key == owner.key)) is None:
            raise unknown_owner(owner)
        rows = await self._database.fetch(_BY_OWNER.where(table.c.name_key == owner.key))
        return _by_path(map(_owned, rows))


async def add_mount(change: ReachChange, owner: Owner, rule: MountRule, origin: str | None = None) -> None:
    await check_exists(change.transaction, rule.connection)
    owner_id, its = await _found(change, owner)
    count = select(func.count()).select_from(mounts).where(its)
    check_count(str(owner), (await change.transaction.execute(count)).scalar_one() + 1)
    column = "group_id" if owner.is_group else "user_id"
    try:
        await change.transaction.execute(
            insert(mounts).values({column: owner_id, "origin": origin, **mount_values(rule)})
        )
    except IntegrityError:
        raise _taken(owner, rule.path) from None


def check_count(owner: str, count: int) -> None:
    if count > MAX_MOUNTS:
        raise NotPossible(f"{owner} can have at most {MAX_MOUNTS} mounts; remove one of them first.")


async def set_mount(change: ReachChange, owner: Owner, path: Path, rule: MountRule) -> None:
    """Replace the mount at this path. `rule` may have another path."""
    await check_exists(change.transaction, rule.connection)
    _, its = await _found(change, owner)
    statement = update(mounts).where(its, mounts.c.path == str(path)).values(mount_values(rule))
    try:
        if not (await change.transaction.execute(statement)).rowcount:
            raise no_mount(owner, path)
    except IntegrityError:
        raise _taken(owner, rule.path) from None


async def remove_mount(change: ReachChange, owner: Owner, path: Path) -> None:
    _, its = await _found(change, owner)
    removed = await change.transaction.execute(delete(mounts).where(its, mounts.c.path == str(path)))
    if not removed.rowcount:
        raise no_mount(owner, path)


async def mount_at(change: ReachChange, owner: Owner, path: Path) -> MountRule:
    """As stored now; `NoMount` if there is none."""
    _, its = await _found(change, owner)
    row = (await change.transaction.execute(select(mounts).where(its, mounts.c.path == str(path)))).first()
    if row is None:
        raise no_mount(owner, path)
    return rule_of(row)


async def _found(change: ReachChange, owner: Owner) -> tuple[int, ColumnElement[bool]]:
    """The owner's id and mounts. Marks the reach of the users concerned to be compiled again."""
    table = _table_of(owner)
    row = (await change.transaction.execute(select(table.c.id).where(table.c.name_key == owner.key))).first()
    if row is None:
        raise unknown_owner(owner)
    if owner.is_group:
        await change.recompile_group(row.id)
        return row.id, mounts.c.group_id == row.id
    change.recompile_users([row.id])
    return row.id, mounts.c.user_id == row.id


def _table_of(owner: Owner):  # type: ignore[no-untyped-def]
    return groups if owner.is_group else users


def mount_values(rule: MountRule) -> dict[str, str]:
    return {
        "path": str(rule.path),
        "connection": rule.connection,
        "folder": rule.folder,
        "rights": format_rights(rule.rights),
    }


def _by_path(found: Iterable[OwnedMount]) -> list[OwnedMount]:
    return sorted(found, key=lambda each: each.rule.path.segments)


def _owned(row: AnyRow) -> OwnedMount:
    owner = row.user_name if row.group_id is None else f"@{row.group_name}"
    return OwnedMount(owner, rule_of(row))


def unknown_user(name: str) -> NotFound:
    return NotFound(f"The user {name[:64]!r} doesn't exist; list all users with 'portico user list'.")


def unknown_group(name: str) -> NotFound:
    return NotFound(f"The group {name[:64]!r} doesn't exist; list all groups with 'portico group list'.")


def unknown_owner(owner: Owner) -> NotFound:
    return unknown_group(owner.name) if owner.is_group else unknown_user(owner.name)


class NoMount(NotFound):
    """The user or the group has no mount at this path."""


def no_mount(owner: Owner, path: Path) -> NoMount:
    return NoMount(f"{owner} has no mount at {path}; list the mounts with 'portico mount list {owner}'.")


def _taken(owner: Owner, path: Path) -> AlreadyExists:
    return AlreadyExists(
        f"{owner} already has a mount at {path}; change it with 'portico mount set', or choose another path."
    )
