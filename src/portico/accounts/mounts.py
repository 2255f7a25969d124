"""Mounts: which folders of which connections the trees of users and groups have, and with which rights."""

import builtins

import msgspec

from portico.accounts.connections import stored_name
from portico.accounts.names import name_key
from portico.model.errors import InvalidRequest
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import Right
from portico.store.database import Database
from portico.store.mounts import (
    MountRecords,
    OwnedMount,
    Owner,
    add_mount,
    mount_at,
    remove_mount,
    set_mount,
    unknown_owner,
)
from portico.store.reach import ReachChange, change_reach

MAX_BYTES = 1024
"""The longest path and folder of a mount, in UTF-8."""


def owner_of(text: str) -> Owner:
    """`anna` is a user, `@partners` a group."""
    is_group = text.startswith("@")
    name = text.removeprefix("@")
    owner = Owner(name, name_key(name), is_group)
    if not owner.key:
        raise unknown_owner(owner)
    return owner


def checked_rule(rule: MountRule) -> MountRule:
    """The rule as it is stored; an error if it can't be a mount of any user or group."""
    if len(str(rule.path).encode()) > MAX_BYTES:
        raise InvalidRequest(f"The path of a mount can have at most {MAX_BYTES} bytes; choose a shorter one.")
    return msgspec.structs.replace(
        rule, path=Path(rule.path.segments), connection=stored_name(rule.connection), folder=checked_folder(rule.folder)
    )


def checked_folder(text: str) -> str:
    """The folder of a mount as it is stored."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidRequest(f"The folder of a mount can have at most {MAX_BYTES} bytes; choose a shorter one.")
    return str(Path.parse(text))


class Mounts:
    """Running gateways see changes when their cached sessions expire, within a second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records = MountRecords(database)

    async def list(self, owner: Owner | None = None) -> builtins.list[OwnedMount]:
        return await (self._records.of(owner) if owner else self._records.all())

    async def add(self, owner: Owner, rule: MountRule) -> None:
        rule = checked_rule(rule)
        await change_reach(self._database, lambda change: add_mount(change, owner, rule))

    async def change(
        self,
        owner: Owner,
        path: Path,
        *,
        connection: str | None = None,
        folder: str | None = None,
        rights: frozenset[Right] | None = None,
        new_path: Path | None = None,
    ) -> None:
        """Change the mount at this path, except for values that are None."""
        given = {"path": new_path, "connection": connection, "folder": folder, "rights": rights}
        changes = {name: value for name, value in given.items() if value is not None}

        async def apply(change: ReachChange) -> None:
            rule = await mount_at(change, owner, path)
            await set_mount(change, owner, path, checked_rule(msgspec.structs.replace(rule, **changes)))

        await change_reach(self._database, apply)

    async def remove(self, owner: Owner, path: Path) -> None:
        await change_reach(self._database, lambda change: remove_mount(change, owner, path))
