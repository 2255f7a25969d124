"""Web Users: who may sign in, where their tree is, and what they may do."""

import builtins
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.accounts.connections import no_connection, stored_name, unknown_connection
from portico.accounts.names import check_name, name_key
from portico.accounts.passwords import Passwords, check_password
from portico.accounts.throttle import clear_failures, forget_user
from portico.model.errors import AlreadyExists, NotFound
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS, Right, format_rights, parse_rights
from portico.runtime import clock
from portico.store.database import AnyRow, Database
from portico.store.tables import connections, families, invitations, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection


class User(msgspec.Struct, frozen=True):
    id: int
    name: str
    connection: str
    root: str
    rights: frozenset[Right]
    disabled: bool
    created_at: datetime
    password_changed_at: datetime

    def limited_to(self, folder: Path, rights: frozenset[Right]) -> "User":
        """The user with only a folder of the tree, and some of the rights."""
        return msgspec.structs.replace(
            self, root=str(folder.under(Path.parse(self.root))), rights=self.rights & rights
        )


USER_COLUMNS = tuple(column for column in users.c if column.name not in ("name_key", "password_hash"))


def user_of(row: AnyRow) -> User:
    """The user in a row that holds `USER_COLUMNS`."""
    return User(
        id=row.id,
        name=row.name,
        connection=row.connection,
        root=row.root,
        rights=parse_rights(row.rights),
        disabled=row.disabled,
        created_at=clock.to_datetime(row.created_at),
        password_changed_at=clock.to_datetime(row.password_changed_at),
    )


class Users:
    """Names are compared without case. Running gateways see changes when their cached sessions expire."""

    def __init__(self, database: Database, passwords: Passwords) -> None:
        self._database = database
        self._passwords = passwords

    async def check_new(self, name: str) -> None:
        """Raise if a user of this name cannot be added."""
        name = check_name(name, "user")
        if await self._database.first(select(users.c.id).where(users.c.name_key == name_key(name))):
            raise _taken(name)

    async def add(
        self,
        name: str,
        password: str | None,
        *,
        connection: str = "local",
        root: str | None = None,
        rights: Iterable[Right] = DEFAULT_RIGHTS,
    ) -> User:
        """Without a password, the user cannot sign in before one is set: see `Invitations`."""
        name = check_name(name, "user")
        now = self._database.now()
        values: dict[str, Any] = {
            "name": name,
            "name_key": name_key(name),
            "connection": stored_name(connection),
            "root": str(Path.parse(f"/{name}" if root is None else root)),
            "rights": format_rights(rights),
            "disabled": False,
            "created_at": now,
            "password_changed_at": now,
            "password_hash": "" if password is None else await self._passwords.hash(password),
        }

        async def store(transaction: "AsyncConnection") -> User:
            await _check_connection(transaction, values["connection"])
            stored = insert(users).values(values).returning(*USER_COLUMNS)
            return user_of((await transaction.execute(stored)).one())

        try:
            return await self._database.transact(store)
        except IntegrityError:
            raise _taken(name) from None

    async def get(self, name: str) -> User:
        row = await self._database.first(select(*USER_COLUMNS).where(users.c.name_key == name_key(name)))
        if row is None:
            raise _unknown_user(name)
        return user_of(row)

    async def list(self) -> builtins.list[User]:
        rows = await self._database.fetch(select(*USER_COLUMNS).order_by(users.c.name_key))
        return [user_of(row) for row in rows]

    async def change(
        self,
        name: str,
        *,
        connection: str | None = None,
        root: str | None = None,
        rights: Iterable[Right] | None = None,
        disabled: bool | None = None,
    ) -> User:
        """Change what is not None. A disabled user is signed out everywhere."""
        values: dict[str, Any] = {}
        if connection is not None:
            values["connection"] = stored_name(connection)
        if root is not None:
            values["root"] = str(Path.parse(root))
        if rights is not None:
            values["rights"] = format_rights(rights)
        if disabled is not None:
            values["disabled"] = disabled
        if not values:
            return await self.get(name)

        async def apply(transaction: "AsyncConnection") -> User:
            if connection is not None:
                await _check_connection(transaction, values["connection"])
            user = await _update(transaction, name, values)
            if disabled:
                await _sign_out(transaction, user.id)
            return user

        return await self._database.transact(apply)

    async def set_password(self, name: str, password: str) -> None:
        """Set the password, sign the user out everywhere, and clear their failed sign-ins."""
        check_password(password)
        await self.get(name)  # before hashing, which is slow
        hashed = await self._passwords.hash(password)
        values = {"password_hash": hashed, "password_changed_at": self._database.now()}

        async def apply(transaction: "AsyncConnection") -> None:
            user = await _update(transaction, name, values)
            await _sign_out(transaction, user.id)
            await clear_failures(transaction, user.name)

        await self._database.transact(apply)

    async def unlock(self, name: str, *, address: str | None = None) -> None:
        """Clear the failed sign-ins of the user, and those of an address if one is given."""
        await self.get(name)
        await self._database.transact(lambda transaction: clear_failures(transaction, name, address))

    async def delete(self, name: str) -> None:

        async def remove(transaction: "AsyncConnection") -> None:
            result = await transaction.execute(delete(users).where(users.c.name_key == name_key(name)))
            if not result.rowcount:
                raise _unknown_user(name)
            await forget_user(transaction, name)

        await self._database.transact(remove)


async def _update(transaction: "AsyncConnection", name: str, values: dict[str, Any]) -> User:
    statement = (
        update(users).where(users.c.name_key == name_key(name)).values(values).returning(*USER_COLUMNS)
    )
    row = (await transaction.execute(statement)).first()
    if row is None:
        raise _unknown_user(name)
    return user_of(row)


async def _check_connection(transaction: "AsyncConnection", name: str) -> None:
    # Locked, where the database can, until the user that refers to it is stored.
    query = (
        select(connections.c.name)
        .where(connections.c.name == name)
        .with_for_update(key_share=True, read=True)
    )
    if (await transaction.execute(query)).first() is None:
        others = await transaction.execute(select(connections.c.name).limit(1))
        raise no_connection() if others.first() is None else unknown_connection(name)


async def _sign_out(transaction: "AsyncConnection", user_id: int) -> None:
    """End what was opened with the password, or is to set another one. Keys are not touched."""
    for table in (families, invitations):
        await transaction.execute(delete(table).where(table.c.user_id == user_id))


def _unknown_user(name: str) -> NotFound:
    return NotFound(f"There is no user {name[:64]!r}; 'portico user list' shows all users.")


def _taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"There is a user {name!r} already; choose another name.")
