"""Groups: users who share mounts and limits. Their order says whose mount wins at the same path."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from portico.accounts.limits import UNSET, Unset, limits
from portico.accounts.names import check_name, name_key
from portico.store.database import Database
from portico.store.groups import (
    Group,
    GroupRecords,
    add_group,
    delete_group,
    join_group,
    leave_group,
    place_group,
    set_group,
)
from portico.store.mounts import unknown_group, unknown_user
from portico.store.reach import Network, ReachChange, change_reach


class Groups:
    """Names are compared without case. Running gateways see changes when their cached sessions expire."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records = GroupRecords(database)
        self.list = self._records.all
        self.of_user = self._records.of_user

    async def get(self, name: str) -> Group:
        if (group := await self._records.find(name_key(name))) is None:
            raise unknown_group(name)
        return group

    async def add(
        self,
        name: str,
        *,
        before: str | None = None,
        expires_at: datetime | None = None,
        addresses: Collection[Network] = (),
    ) -> Group:
        """Add a group before another one, or after all others."""
        values = named(name) | limits(expires_at, addresses)

        async def apply(change: ReachChange) -> None:
            await add_group(change, values)
            if before is not None:
                await place_group(change, values["name_key"], group_key(before))

        await change_reach(self._database, apply)
        return await self.get(name)

    async def change(
        self,
        name: str,
        *,
        new_name: str | None = None,
        before: str | None = None,
        last: bool = False,
        expires_at: datetime | Unset | None = UNSET,
        addresses: Collection[Network] | Unset = UNSET,
    ) -> Group:
        """Change what is given: the name, the limits, and the place in the order, before another group or `last`."""
        key = group_key(name)
        values = limits(expires_at, addresses)
        if new_name is not None:
            values |= named(new_name)

        async def apply(change: ReachChange) -> None:
            if before is not None or last:
                await place_group(change, key, None if last else group_key(before or ""))
            if values:
                await set_group(change, key, values)

        await change_reach(self._database, apply)
        return await self.get(new_name or name)

    async def delete(self, name: str) -> None:
        """Delete a group with its mounts. Its members stay users."""
        key = group_key(name)
        await change_reach(self._database, lambda change: delete_group(change, key))

    async def join(self, name: str, users: Iterable[str]) -> None:
        key, keys = group_key(name), _user_keys(users)
        await change_reach(self._database, lambda change: join_group(change, key, keys))

    async def leave(self, name: str, users: Iterable[str]) -> None:
        key, keys = group_key(name), _user_keys(users)
        await change_reach(self._database, lambda change: leave_group(change, key, keys))


def named(name: str) -> dict[str, Any]:
    """The columns of a group's name."""
    checked = check_name(name, "group")
    return {"name": checked, "name_key": name_key(checked)}


def group_key(name: str) -> str:
    if not (key := name_key(name)):
        raise unknown_group(name)
    return key


def _user_keys(names: Iterable[str]) -> list[str]:
    keys = []
    for name in names:
        if not (key := name_key(name)):
            raise unknown_user(name)
        keys.append(key)
    return keys
