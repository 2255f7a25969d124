"""Users, and the invitations with which they set a password once."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from sqlalchemy import Executable, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import AlreadyExists
from portico.model.paths import Path
from portico.model.reach import MountRule, Reach
from portico.model.rights import Right
from portico.runtime import clock
from portico.store.connections import check_exists
from portico.store.database import SWEEP_WAIT, AnyRow, Database, Statement, upsert
from portico.store.groups import join_group, user_ids
from portico.store.mounts import MountRecords, Owner, check_count, mount_at, mount_values, set_mount
from portico.store.reach import Network, ReachChange, change_reach, read_compiled
from portico.store.sign_in_attempts import cleared, forgotten
from portico.store.tables import families, invitations, mounts, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection


class User(msgspec.Struct, frozen=True):
    id: int
    name: str
    reach: Reach
    disabled: bool
    created_at: datetime
    password_changed_at: datetime
    expires_at: datetime | None = None
    """The user's own end or a group's, whichever is first."""
    addresses: tuple[tuple[Network, ...], ...] = ()
    """The user's own ranges and those of each group: a client's address must be in each of them."""

    def has_expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= clock.to_datetime(now)

    def may_act(self, now: int) -> bool:
        """Whether the account is neither disabled nor expired."""
        return not self.disabled and not self.has_expired(now)

    def admits(self, address: str) -> bool:
        """Whether the user may act from this address."""
        return not self.addresses or all(within(address, ranges) for ranges in self.addresses)

    @property
    def rights(self) -> frozenset[Right]:
        """All that the user may do anywhere."""
        return self.reach.rights

    def limited_to(self, folder: Path, rights: frozenset[Right]) -> "User":
        """The user with only a folder of the tree, and some of the rights."""
        return self.with_reach(self.reach.limited_to(folder, rights))

    def with_reach(self, reach: Reach) -> "User":
        return msgspec.structs.replace(self, reach=reach)


class UserRecord(msgspec.Struct, frozen=True):
    """A user as an administrator made it."""

    user: User
    mounts: tuple[MountRule, ...]
    """The user's own, by path."""
    expires_at: datetime | None
    """The user's own."""
    addresses: tuple[Network, ...]
    """The user's own."""


_NO_REACH: Final = '{"mounts":[]}'
"""A new user's, until it is compiled."""
_COLUMNS = ("id", "name", "reach", "disabled", "created_at", "password_changed_at")
USER_COLUMNS = tuple(users.c[name] for name in _COLUMNS)


def user_of(row: AnyRow) -> User:
    compiled = read_compiled(row.reach)
    return User(
        row.id,
        row.name,
        compiled.reach,
        row.disabled,
        clock.to_datetime(row.created_at),
        clock.to_datetime(row.password_changed_at),
        compiled.expires_at,
        compiled.addresses,
    )


def within(address: str, ranges: tuple[Network, ...]) -> bool:
    """Whether an address is in one of the ranges."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        parsed = parsed.ipv4_mapped or parsed
    return any(parsed in each for each in ranges)


class UserRecords:
    """Users are found by the key of their name. `attempts` is the digest under which a user's failed sign-ins are counted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key: str | int) -> tuple[User, str] | tuple[None, None]:
        column = users.c.id if isinstance(key, int) else users.c.name_key
        row = await self._database.first(select(users).where(column == key))
        return (None, None) if row is None else (user_of(row), row.password_hash)

    async def all(self) -> list[User]:
        rows = await self._database.fetch(select(*USER_COLUMNS).order_by(users.c.name_key))
        return [user_of(row) for row in rows]

    async def records(self, key: str | None = None) -> list[UserRecord]:
        """All users, or the one with this key."""
        query = select(users).order_by(users.c.name_key)
        rows = await self._database.fetch(query if key is None else query.where(users.c.name_key == key))
        records = MountRecords(self._database)
        found = await records.all() if key is None else await records.of(Owner(key, key)) if rows else []
        own: dict[str, list[MountRule]] = {}
        for each in found:
            own.setdefault(each.owner, []).append(each.rule)
        return [
            UserRecord(
                user_of(row),
                tuple(own.get(row.name, ())),
                None if row.expires_at is None else clock.to_datetime(row.expires_at),
                tuple(map(ip_network, row.addresses.split())),
            )
            for row in rows
        ]

    async def add(self, values: Mapping[str, Any], mounts: Sequence[MountRule], groups: Iterable[str] = ()) -> User:
        """`groups` are the keys of those that the user joins."""
        key = values["name_key"]

        async def store(change: ReachChange) -> User:
            for rule in mounts:
                await check_exists(change.transaction, rule.connection)
            await add_users(change, [NewUser(values, mounts)])
            for group in groups:
                await join_group(change, group, [key])
            await change.compile()
            query = select(*USER_COLUMNS).where(users.c.name_key == key)
            return user_of((await change.transaction.execute(query)).one())

        return await change_reach(self._database, store)

    async def change(
        self, key: str, values: Mapping[str, Any], *, sign_out: bool = False, attempts: bytes | None = None
    ) -> User | None:
        """Change a user, if there is one. Failed sign-ins are cleared if `attempts` is given."""

        async def apply(transaction: "AsyncConnection") -> User | None:
            return await _change_user(transaction, key, values, sign_out=sign_out, attempts=attempts)

        return await self._database.transact(apply)

    async def change_reach(
        self, owner: Owner, values: Mapping[str, Any], mount: Mapping[str, Any], *, sign_out: bool = False
    ) -> User | None:
        """As `change`, for limits of the user, and for what is given of the mount at `/`."""

        async def apply(change: ReachChange) -> int | None:
            found = await set_user(change, owner.key, values, sign_out=sign_out)
            if found is not None and mount:
                rule = await mount_at(change, owner, Path())
                await set_mount(change, owner, Path(), msgspec.structs.replace(rule, **mount))
            return found

        if await change_reach(self._database, apply) is None:
            return None
        return (await self.find(owner.key))[0]

    async def change_password(
        self, user: User, former: str | None, values: Mapping[str, Any], *, session: str, success: Statement
    ) -> bool:
        """Change the password, unless it is another one than the `former`, and end all sessions except this one."""

        async def apply(transaction: "AsyncConnection") -> bool:
            own = users.c.id == user.id, users.c.password_hash == former, users.c.disabled.is_(False)
            if not (await transaction.execute(update(users).where(*own).values(values))).rowcount:
                return False
            others = families.c.user_id == user.id, families.c.id != session
            await transaction.execute(delete(families).where(*others))
            await transaction.execute(delete(invitations).where(invitations.c.user_id == user.id))
            await transaction.execute(success)
            return True

        return await self._database.transact(apply)

    async def unlock(self, attempts: bytes, address: bytes | None) -> None:
        await self._database.execute(cleared(attempts, address))

    async def delete(self, key: str, attempts: bytes) -> bool:
        return await self._database.transact(lambda transaction: remove_user(transaction, key, attempts))

    # Invitations

    async def invite(self, key: str, digest: bytes, expires_at: int) -> User | None:
        """Give the user, if there is one, an invitation, which replaces an earlier one; but none to a user who may not act."""
        values = {"digest": digest, "expires_at": expires_at}

        async def store(transaction: "AsyncConnection") -> User | None:
            query = select(*USER_COLUMNS).where(users.c.name_key == key).with_for_update(read=True)
            row = (await transaction.execute(query)).first()
            if row is None:
                return None
            if (user := user_of(row)).may_act(self._database.now()):
                statement = upsert(self._database.dialect, invitations, values)
                await transaction.execute(statement.values(user_id=user.id, **values))
            return user

        return await self._database.transact(store)

    async def invited(self, digest: bytes) -> tuple[User, int] | None:
        """The user of an invitation that can be accepted, and when it expires."""
        query = (
            select(*USER_COLUMNS, invitations.c.expires_at)
            .join(users, invitations.c.user_id == users.c.id)
            .where(invitations.c.digest == digest)
        )
        row, now = await self._database.first(query), self._database.now()
        if row is None or row.expires_at <= now or not (user := user_of(row)).may_act(now):
            return None
        return user, row.expires_at

    async def accept(self, digest: bytes, user: User, password_hash: str, attempts: bytes) -> User | None:
        """Set the password with an invitation, which ends, as all sessions do; None if it was used before."""
        values = {"password_hash": password_hash, "password_changed_at": self._database.now()}

        async def apply(transaction: "AsyncConnection") -> User | None:
            # Of several who accept it, only one finds it.
            used = delete(invitations).where(invitations.c.digest == digest)
            if not (await transaction.execute(used)).rowcount:
                return None
            own = users.c.id == user.id, users.c.disabled.is_(False)
            changed = update(users).where(*own).values(values).returning(*USER_COLUMNS)
            row = (await transaction.execute(changed)).first()
            await transaction.execute(delete(families).where(families.c.user_id == user.id))
            await transaction.execute(cleared(attempts))
            return None if row is None else user_of(row)

        return await self._database.transact(apply)

    async def sweep_invitations(self) -> None:
        expired = delete(invitations).where(invitations.c.expires_at <= self._database.now())
        await self._database.execute(expired, wait=SWEEP_WAIT)


class NewUser(NamedTuple):
    values: Mapping[str, Any]
    mounts: Sequence[MountRule]
    invitation: Mapping[str, Any] | None = None


async def add_users(change: ReachChange, new: Sequence[NewUser]) -> None:
    """Add all users at once: two thousand hold SQLite's write lock for half a second instead of four.

    The connections of the mounts must exist. `AlreadyExists` names the first user.
    """
    execute = change.transaction.execute
    if not new:
        return
    try:
        await execute(insert(users), [{"reach": _NO_REACH, **each.values} for each in new])
    except IntegrityError:
        raise taken(new[0].values["name"]) from None
    ids = await user_ids(change, [each.values["name_key"] for each in new])
    given, invited = [], []
    for each in new:
        user_id, origin = ids[each.values["name_key"]], each.values.get("origin")
        check_count(each.values["name"], len(each.mounts))
        given += [{"user_id": user_id, "origin": origin, **mount_values(rule)} for rule in each.mounts]
        invited += [{"user_id": user_id, **each.invitation}] if each.invitation else []
    for table, rows in ((mounts, given), (invitations, invited)):
        if rows:
            await execute(insert(table), rows)
    change.recompile_users(ids.values())


async def set_user(change: ReachChange, key: str, values: Mapping[str, Any], *, sign_out: bool = False) -> int | None:
    """Change columns of a user, whose id is returned; None if there is no such user."""
    user = await _change_user(change.transaction, key, values, sign_out=sign_out)
    if user is None:
        return None
    change.recompile_users([user.id])
    return user.id


async def remove_user(transaction: "AsyncConnection", key: str, attempts: bytes) -> bool:
    result = await transaction.execute(delete(users).where(users.c.name_key == key))
    if result.rowcount:
        await transaction.execute(forgotten(attempts))
    return result.rowcount > 0


async def _change_user(
    transaction: "AsyncConnection",
    key: str,
    values: Mapping[str, Any],
    *,
    sign_out: bool = False,
    attempts: bytes | None = None,
) -> User | None:
    own = users.c.name_key == key
    query: Executable = select(*USER_COLUMNS).where(own)
    if values:
        query = update(users).where(own).values(values).returning(*USER_COLUMNS)
    row = (await transaction.execute(query)).first()
    if row is None:
        return None
    # What was opened with the password, or is to set another one, ends. Keys are not touched.
    for table in (families, invitations) if sign_out else ():
        await transaction.execute(delete(table).where(table.c.user_id == row.id))
    if attempts:
        await transaction.execute(cleared(attempts))
    return user_of(row)


def taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"The user {name!r} already exists; choose another name.")
