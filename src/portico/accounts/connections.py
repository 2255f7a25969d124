"""Connections: the named storage services, with their credentials sealed."""

import builtins
import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts import moments
from portico.accounts.names import check_name
from portico.accounts.vault import Vault
from portico.errors import AlreadyExists, InvalidRequest, NotFound, NotPossible
from portico.store.database import AnyRow, Database
from portico.store.tables import connections, users

_NAMED = 5  # how many users a refusal names


@dataclass(frozen=True, slots=True)
class Connection:
    name: str
    kind: str
    options: dict[str, str]
    secrets: dict[str, str] = field(repr=False)
    revision: int
    """Grows with each change. It starts at the clock, so that a name added anew is taken for a change too, unless
    that happens within a millisecond or after the clock was put back."""


class Connections:
    """Which kinds and options there are is known to the callers; here they are words."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault

    async def add(self, name: str, kind: str, options: dict[str, str], secrets: dict[str, str]) -> Connection:
        name = check_name(name, "connection")
        connection = Connection(name, kind, dict(options), dict(secrets), moments.now())
        try:
            async with self._database.begin() as transaction:
                await transaction.execute(
                    insert(connections).values(name=name, kind=kind, **self._stored(connection))
                )
        except IntegrityError:
            raise AlreadyExists(f"There is a connection {name!r} already; choose another name.") from None
        return connection

    async def change(
        self, name: str, *, options: dict[str, str | None], secrets: dict[str, str | None]
    ) -> Connection:
        """Merge the given keys into those that are there; None removes a key."""
        async with self._database.begin() as transaction:
            old = await self._read(transaction, name, to_change=True)
            new = Connection(
                old.name,
                old.kind,
                _merged(old.options, options),
                _merged(old.secrets, secrets),
                max(moments.now(), old.revision + 1),
            )
            await transaction.execute(
                update(connections).where(connections.c.name == new.name).values(**self._stored(new))
            )
        return new

    async def get(self, name: str) -> Connection:
        async with self._database.connect() as reading:
            return await self._read(reading, name)

    async def list(self) -> builtins.list[Connection]:
        async with self._database.connect() as reading:
            rows = (await reading.execute(select(connections).order_by(connections.c.name))).all()
        return [self._connection(row) for row in rows]

    async def revisions(self) -> dict[str, int]:
        """The revision of every connection: a cheap way to see which ones changed."""
        async with self._database.connect() as reading:
            rows = (await reading.execute(select(connections.c.name, connections.c.revision))).all()
        return {row.name: row.revision for row in rows}

    async def delete(self, name: str) -> None:
        async with self._database.begin() as transaction:
            name = known_form(name)
            dwellers = (
                await transaction.scalars(
                    select(users.c.name).where(users.c.connection == name).order_by(users.c.name)
                )
            ).all()
            if dwellers:
                shown = ", ".join(dwellers[:_NAMED]) + (" and others" if len(dwellers) > _NAMED else "")
                raise NotPossible(
                    f"The connection {name!r} is in use by {shown}; move or delete these users first."
                )
            try:
                result = await transaction.execute(delete(connections).where(connections.c.name == name))
            except IntegrityError:  # a user was added in between
                raise NotPossible(
                    f"The connection {name!r} is in use; move or delete its users first."
                ) from None
            if not result.rowcount:
                raise unknown_connection(name)

    async def _read(self, connection: AsyncConnection, name: str, *, to_change: bool = False) -> Connection:
        query = select(connections).where(connections.c.name == known_form(name))
        row = (await connection.execute(query.with_for_update() if to_change else query)).first()
        if row is None:
            raise unknown_connection(name)
        return self._connection(row)

    def _stored(self, connection: Connection) -> dict[str, Any]:
        return {
            "options": json.dumps(connection.options),
            # Without secrets there is nothing to seal, and such a connection outlives a lost key.
            "secrets": self._vault.seal(connection.secrets, connection.name) if connection.secrets else None,
            "revision": connection.revision,
        }

    def _connection(self, row: AnyRow) -> Connection:
        secrets = self._vault.open(row.secrets, row.name) if row.secrets is not None else {}
        return Connection(row.name, row.kind, json.loads(row.options), secrets, row.revision)


def unknown_connection(name: str) -> NotFound:
    return NotFound(
        f"There is no connection {name[:64]!r}; 'portico connection list' names those that exist."
    )


def known_form(name: str) -> str:
    """The name as a connection would be stored under it; `NotFound` if none can be called so."""
    try:
        return check_name(name, "connection")
    except InvalidRequest:
        raise unknown_connection(name) from None


def _merged(old: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}
