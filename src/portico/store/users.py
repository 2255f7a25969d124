"""Users, and the invitations with which they set a password once."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.model.errors import AlreadyExists
from portico.model.paths import Path, Place
from portico.model.reach import Reach
from portico.model.rights import Right, parse_rights
from portico.runtime import clock
from portico.store.connections import check_exists
from portico.store.database import SWEEP_WAIT, AnyRow, Database, Statement, upsert
from portico.store.sign_in_attempts import cleared, forgotten
from portico.store.tables import families, invitations, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection


class User(msgspec.Struct, frozen=True):
    id: int
    name: str
    reach: Reach
    disabled: bool
    created_at: datetime
    password_changed_at: datetime

    @property
    def root(self) -> Place:
        return self.reach.mounts[0].place

    @property
    def rights(self) -> frozenset[Right]:
        """All that the user may do anywhere."""
        return self.reach.rights

    def limited_to(self, folder: Path, rights: frozenset[Right]) -> "User":
        """The user with only a folder of the tree, and some of the rights."""
        return self.with_reach(self.reach.limited_to(folder, rights))

    def with_reach(self, reach: Reach) -> "User":
        return msgspec.structs.replace(self, reach=reach)


USER_COLUMNS = tuple(column for column in users.c if column.name not in ("name_key", "password_hash"))


def user_of(row: AnyRow) -> User:
    return User(
        id=row.id,
        name=row.name,
        reach=Reach.of(Place(row.connection, Path.parse(row.root)), parse_rights(row.rights)),
        disabled=row.disabled,
        created_at=clock.to_datetime(row.created_at),
        password_changed_at=clock.to_datetime(row.password_changed_at),
    )


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

    async def add(self, values: Mapping[str, Any]) -> User:
        async def store(transaction: "AsyncConnection") -> User:
            await check_exists(transaction, values["connection"])
            stored = insert(users).values(values).returning(*USER_COLUMNS)
            return user_of((await transaction.execute(stored)).one())

        try:
            return await self._database.transact(store)
        except IntegrityError:
            raise taken(values["name"]) from None

    async def change(
        self, key: str, values: Mapping[str, Any], *, sign_out: bool = False, attempts: bytes | None = None
    ) -> User | None:
        """Change a user, if there is one. Failed sign-ins are cleared if `attempts` is given."""

        async def apply(transaction: "AsyncConnection") -> User | None:
            if "connection" in values:
                await check_exists(transaction, values["connection"])
            statement = update(users).where(users.c.name_key == key).values(values).returning(*USER_COLUMNS)
            row = (await transaction.execute(statement)).first()
            if row is None:
                return None
            # What was opened with the password, or is to set another one, ends. Keys are not touched.
            for table in (families, invitations) if sign_out else ():
                await transaction.execute(delete(table).where(table.c.user_id == row.id))
            if attempts:
                await transaction.execute(cleared(attempts))
            return user_of(row)

        return await self._database.transact(apply)

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
        async def remove(transaction: "AsyncConnection") -> bool:
            result = await transaction.execute(delete(users).where(users.c.name_key == key))
            if result.rowcount:
                await transaction.execute(forgotten(attempts))
            return result.rowcount > 0

        return await self._database.transact(remove)

    # Invitations

    async def invite(self, key: str, digest: bytes, expires_at: int) -> User | None:
        """Give the user, if there is one, an invitation, which replaces an earlier one; but none to a disabled user."""
        values = {"digest": digest, "expires_at": expires_at}

        async def store(transaction: "AsyncConnection") -> User | None:
            query = select(*USER_COLUMNS).where(users.c.name_key == key).with_for_update(read=True)
            row = (await transaction.execute(query)).first()
            if row is not None and not row.disabled:
                statement = upsert(self._database.dialect, invitations, values)
                await transaction.execute(statement.values(user_id=row.id, **values))
            return None if row is None else user_of(row)

        return await self._database.transact(store)

    async def invited(self, digest: bytes) -> tuple[User, int] | None:
        """The user of an invitation that can be accepted, and when it expires."""
        query = (
            select(*USER_COLUMNS, invitations.c.expires_at)
            .join(users, invitations.c.user_id == users.c.id)
            .where(invitations.c.digest == digest)
        )
        row = await self._database.first(query)
        if row is None or row.disabled or row.expires_at <= self._database.now():
            return None
        return user_of(row), row.expires_at

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


def taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"The user {name!r} already exists; choose another name.")
