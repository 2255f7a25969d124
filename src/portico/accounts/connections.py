"""Connections: the named storage services, with their credentials sealed."""

import builtins
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.accounts import moments
from portico.accounts.home_paths import HomePaths
from portico.accounts.names import check_name
from portico.accounts.vault import Vault
from portico.errors import AlreadyExists, InvalidRequest, NotFound, NotPossible
from portico.rights import Right, parse_rights
from portico.store.database import AnyRow, Database
from portico.store.tables import connections, users

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

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

    def __init__(self, database: Database, vault: Vault, paths: HomePaths | None = None) -> None:
        """Without `paths`, options that name files are kept and given out as they are."""
        self._database = database
        self._vault = vault
        self._paths = paths

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

    async def list(self, *, with_secrets: bool = True) -> builtins.list[Connection]:
        """All connections; without their secrets a lost key does not matter."""
        async with self._database.connect() as reading:
            rows = (await reading.execute(select(connections).order_by(connections.c.name))).all()
        return [self._connection(row, with_secrets=with_secrets) for row in rows]

    async def revisions(self) -> dict[str, int]:
        """The revision of every connection: a cheap way to see which ones changed."""
        async with self._database.connect() as reading:
            rows = (await reading.execute(select(connections.c.name, connections.c.revision))).all()
        return {row.name: row.revision for row in rows}

    async def in_use(self) -> dict[str, frozenset[Right]]:
        """The connections that enabled users have their roots in, with all the rights that these hold there."""
        query = select(users.c.connection, users.c.rights).where(users.c.disabled.is_(False)).distinct()
        async with self._database.connect() as reading:
            rows = (await reading.execute(query)).all()
        found: dict[str, frozenset[Right]] = {}
        for row in rows:
            found[row.connection] = found.get(row.connection, frozenset()) | parse_rights(row.rights)
        return found

    async def keep_paths_relative(self) -> None:
        """Store paths inside the home as an older version did not: relative to it. What is used stays the same."""
        query = select(connections.c.name, connections.c.options).order_by(connections.c.name)
        async with self._database.connect() as reading:
            if not any(map(self._is_outdated, (await reading.execute(query)).all())):
                return
        async with self._database.begin() as transaction:
            rows = (await transaction.execute(query.with_for_update())).all()
            for row in filter(self._is_outdated, rows):
                # The revision stays: no provider has to be opened anew.
                await transaction.execute(
                    update(connections)
                    .where(connections.c.name == row.name)
                    .values(options=self._stored_options(json.loads(row.options)))
                )

    def _is_outdated(self, row: AnyRow) -> bool:
        options = json.loads(row.options)
        return self._paths is not None and self._paths.stored(options) != options

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

    async def _read(self, connection: "AsyncConnection", name: str, *, to_change: bool = False) -> Connection:
        query = select(connections).where(connections.c.name == known_form(name))
        row = (await connection.execute(query.with_for_update() if to_change else query)).first()
        if row is None:
            raise unknown_connection(name)
        return self._connection(row)

    def _stored(self, connection: Connection) -> dict[str, Any]:
        return {
            "options": self._stored_options(connection.options),
            # Without secrets there is nothing to seal, and such a connection outlives a lost key.
            "secrets": self._vault.seal(connection.secrets, connection.name) if connection.secrets else None,
            "revision": connection.revision,
        }

    def _stored_options(self, options: dict[str, str]) -> str:
        return json.dumps(self._paths.stored(options) if self._paths else options)

    def _connection(self, row: AnyRow, *, with_secrets: bool = True) -> Connection:
        sealed = row.secrets if with_secrets else None
        secrets = self._vault.open(sealed, row.name) if sealed is not None else {}
        options = json.loads(row.options)
        if self._paths:
            options = self._paths.resolved(options)
        return Connection(row.name, row.kind, options, secrets, row.revision)


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
