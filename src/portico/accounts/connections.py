"""Connections: named storage services, with encrypted credentials."""

import builtins
import json
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from portico.accounts.cluster import KEY, Cluster, agree_on_sealing
from portico.accounts.names import check_name
from portico.accounts.vault import BadSecretKey, Vault
from portico.model.errors import AlreadyExists, InvalidRequest, NotFound, NotPossible
from portico.model.rights import Right, parse_rights
from portico.store.database import AnyRow, Database
from portico.store.tables import connections, users


class HomePaths(msgspec.Struct, frozen=True):
    home: str
    names: Collection[str]
    """The options that name a file or folder."""
    keep_relative: bool
    """Whether the database is inside the home and moves with it. Nodes that share a database elsewhere may have
    different homes, and a relative path would mean a different folder on each."""

    def stored(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options as they are stored."""
        if not self.keep_relative:
            return dict(options)
        return {key: self._relative(text) if key in self.names else text for key, text in options.items()}

    def resolved(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options as they are used and shown, with absolute paths."""
        return {
            key: os.path.normpath(os.path.join(self.home, text)) if key in self.names else text
            for key, text in options.items()
        }

    def _relative(self, path: str) -> str:
        # A link inside the home belongs to it, wherever it points; the home itself may be reached by a link.
        for resolve in (os.path.normpath, os.path.realpath):
            resolved, home = resolve(path), resolve(self.home)
            if os.path.isabs(resolved) and os.path.commonpath([resolved, home]) == home:
                return os.path.relpath(resolved, home)
        return path


if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.ext.asyncio import AsyncConnection

_MAX_NAMES = 5  # of users in an error


class Connection(msgspec.Struct, frozen=True):
    name: str
    kind: str
    options: dict[str, str]
    secrets: dict[str, str]
    revision: int
    """Grows with each change. It starts at the current time, so that a name that is deleted and added again has a new
    revision too, unless that happens within a millisecond or the clock was set back."""
    volume_id: str | None = None
    """Of the storage that was found first. One with another id is a mistake, such as a share that is not mounted."""

    def __repr__(self) -> str:
        return "Connection(…)"


class Connections:
    """Kinds and options are not checked here, but by the callers."""

    def __init__(self, database: Database, vault: Vault, paths: HomePaths | None = None) -> None:
        """Without `paths`, options that name files are stored as they are."""
        self._database = database
        self._vault = vault
        self._paths = paths

    async def add(self, name: str, kind: str, options: dict[str, str], secrets: dict[str, str]) -> Connection:
        name = check_name(name, "connection")
        connection = Connection(name, kind, dict(options), dict(secrets), self._database.now())
        row = {"name": name, "kind": kind, **self._stored(connection)}

        async def store(transaction: "AsyncConnection") -> None:
            await self._check_key(transaction, connection)
            await transaction.execute(insert(connections).values(row))

        try:
            await self._database.transact(store)
        except IntegrityError:
            raise AlreadyExists(f"There is a connection {name!r} already; choose another name.") from None
        return connection

    async def change(
        self, name: str, *, options: dict[str, str | None], secrets: dict[str, str | None]
    ) -> Connection:
        """Merge these keys into the existing ones; None removes a key. The volume id is forgotten."""

        async def merge(transaction: "AsyncConnection") -> Connection:
            row = (await transaction.execute(_named(name).with_for_update())).first()
            old = self._known(row, name)
            new = Connection(
                old.name,
                old.kind,
                _merged(old.options, options),
                _merged(old.secrets, secrets),
                max(self._database.now(), old.revision + 1),
            )
            await self._check_key(transaction, new)
            await transaction.execute(
                update(connections).where(connections.c.name == new.name).values(**self._stored(new))
            )
            return new

        return await self._database.transact(merge)

    async def bind(self, connection: Connection, volume_id: str) -> str | None:
        """Store the volume id unless there is one, or the connection has changed; returns the stored one."""
        mine = (connections.c.name == connection.name, connections.c.revision == connection.revision)
        # The revision stays the same: no provider has to be opened again.
        await self._database.execute(
            update(connections).where(*mine, connections.c.volume_id.is_(None)).values(volume_id=volume_id)
        )
        row = await self._database.first(select(connections.c.volume_id).where(*mine))
        return row.volume_id if row else None

    async def get(self, name: str) -> Connection:
        return self._known(await self._database.first(_named(name)), name)

    async def list(self, *, with_secrets: bool = True) -> builtins.list[Connection]:
        """All connections; without their secrets, this works without the secret key."""
        rows = await self._database.fetch(select(connections).order_by(connections.c.name))
        return [self._connection(row, with_secrets=with_secrets) for row in rows]

    async def revisions(self) -> dict[str, int]:
        """The revision of every connection: a cheap way to see which have changed."""
        rows = await self._database.fetch(select(connections.c.name, connections.c.revision))
        return {row.name: row.revision for row in rows}

    async def adopt_key(self) -> None:
        """Note that this key sealed the credentials, if it did and no key is known: older versions did not note it."""
        query = select(connections.c.name, connections.c.secrets).where(connections.c.secrets.is_not(None))
        row = await self._database.first(query.order_by(connections.c.name).limit(1))
        if row is None:
            return
        try:
            self._vault.open(row.secrets, row.name)
        except BadSecretKey:
            return
        cluster = Cluster(self._database)
        if KEY not in await cluster.identity():
            await cluster.agree({KEY: self._vault.fingerprint})

    async def in_use(self) -> dict[str, frozenset[Right]]:
        """The connections that hold roots of enabled users, with all rights that these users have."""
        query = select(users.c.connection, users.c.rights).where(users.c.disabled.is_(False)).distinct()
        rows = await self._database.fetch(query)
        rights: dict[str, frozenset[Right]] = {}
        for row in rows:
            rights[row.connection] = rights.get(row.connection, frozenset()) | parse_rights(row.rights)
        return rights

    async def keep_paths_relative(self) -> None:
        """Convert paths inside the home that an older version stored as absolute ones."""
        query = select(connections.c.name, connections.c.options).order_by(connections.c.name)
        if not any(map(self._is_outdated, await self._database.fetch(query))):
            return

        async def convert(transaction: "AsyncConnection") -> None:
            rows = (await transaction.execute(query.with_for_update())).all()
            for row in filter(self._is_outdated, rows):
                # The revision stays the same: no provider has to be opened again.
                await transaction.execute(
                    update(connections)
                    .where(connections.c.name == row.name)
                    .values(options=self._stored_options(json.loads(row.options)))
                )

        await self._database.transact(convert)

    def _is_outdated(self, row: AnyRow) -> bool:
        options = json.loads(row.options)
        return self._paths is not None and self._paths.stored(options) != options

    async def delete(self, name: str) -> None:
        name = stored_name(name)
        query = select(users.c.name).where(users.c.connection == name).order_by(users.c.name)
        if rows := await self._database.fetch(query.limit(_MAX_NAMES + 1)):
            shown = ", ".join(row.name for row in rows[:_MAX_NAMES])
            shown += " and others" if len(rows) > _MAX_NAMES else ""
            raise NotPossible(
                f"The connection {name!r} is in use by {shown}; move or delete its users first."
            )
        try:
            deleted = await self._database.execute(delete(connections).where(connections.c.name == name))
        except IntegrityError:  # a user was added in between
            raise NotPossible(f"The connection {name!r} is in use; move or delete its users first.") from None
        if not deleted:
            raise unknown_connection(name)

    async def _check_key(self, transaction: "AsyncConnection", connection: Connection) -> None:
        """One key seals all credentials: with two, each node could read only some of them."""
        if connection.secrets:
            await agree_on_sealing(transaction, self._vault.fingerprint, self._database)

    def _known(self, row: AnyRow | None, name: str) -> Connection:
        if row is None:
            raise unknown_connection(name)
        return self._connection(row)

    def _stored(self, connection: Connection) -> dict[str, Any]:
        return {
            "options": self._stored_options(connection.options),
            # Without secrets nothing is encrypted, so the connection works without the secret key.
            "secrets": self._vault.seal(connection.secrets, connection.name) if connection.secrets else None,
            "revision": connection.revision,
            "volume_id": connection.volume_id,
        }

    def _stored_options(self, options: dict[str, str]) -> str:
        return json.dumps(self._paths.stored(options) if self._paths else options)

    def _connection(self, row: AnyRow, *, with_secrets: bool = True) -> Connection:
        sealed = row.secrets if with_secrets else None
        secrets = self._vault.open(sealed, row.name) if sealed is not None else {}
        options = json.loads(row.options)
        if self._paths:
            options = self._paths.resolved(options)
        return Connection(row.name, row.kind, options, secrets, row.revision, row.volume_id)


def _named(name: str) -> "Select[*tuple[Any, ...]]":
    return select(connections).where(connections.c.name == stored_name(name))


def unknown_connection(name: str) -> NotFound:
    return NotFound(f"There is no connection {name[:64]!r}; 'portico connection list' shows all connections.")


def no_connection() -> NotFound:
    return NotFound(
        "There is no connection yet; add one with 'portico connection add NAME --kind KIND' first."
    )


def stored_name(name: str) -> str:
    """The name in its stored form; `NotFound` if no connection can have it."""
    try:
        return check_name(name, "connection")
    except InvalidRequest:
        raise unknown_connection(name) from None


def _merged(old: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}
