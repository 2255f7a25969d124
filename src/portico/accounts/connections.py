"""Connections: named storage services, with encrypted credentials."""

import builtins
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from portico.accounts.cluster import Cluster
from portico.accounts.names import check_name
from portico.accounts.vault import Vault
from portico.model.errors import InvalidRequest
from portico.store.cluster import OtherKey
from portico.store.connections import ConnectionRecord, ConnectionRecords, unknown_connection
from portico.store.database import Database
from portico.store.encrypted_columns import Confidential


class HomePaths(msgspec.Struct, frozen=True):
    home: str
    names: Collection[str]
    """The options that name a file or folder."""
    keep_relative: bool
    """Whether the database is inside the home and moves with it. Nodes that share a database elsewhere may have
    different homes, and a relative path would mean a different folder on each."""

    def stored(self, options: Mapping[str, str]) -> dict[str, str]:
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


class Connection(Confidential, msgspec.Struct, frozen=True):
    name: str
    kind: str
    options: dict[str, str]
    secrets: dict[str, str]
    revision: int
    """Grows with each change. It starts at the current time, so that a name that is deleted and added again has a new
    revision too, unless that happens within a millisecond or the clock was set back."""
    volume_id: str | None = None
    """Of the storage that was found first. One with another id is a mistake, such as a share that is not mounted."""
    origin: str | None = None
    """What created it, such as `apply`; None: an administrator, by hand."""


class Connections(ConnectionRecords):
    """Kinds and options are not checked here, but by the callers."""

    def __init__(self, database: Database, vault: Vault, paths: HomePaths | None = None) -> None:
        """Without `paths`, options that name files are stored as they are."""
        super().__init__(database)
        self._vault = vault
        self._paths = paths

    async def add(self, name: str, kind: str, options: dict[str, str], secrets: dict[str, str]) -> Connection:
        name = check_name(name, "connection")
        connection = Connection(name, kind, dict(options), dict(secrets), self._database.now())
        with self.one_key():
            await self.insert(*self.sealed(connection))
        return connection

    async def change(self, name: str, *, options: dict[str, str | None], secrets: dict[str, str | None]) -> Connection:
        """Merge these keys into the existing ones; None removes a key. The volume id is forgotten."""

        new: Connection | None = None

        def merged(row: ConnectionRecord) -> tuple[ConnectionRecord, str | None]:
            nonlocal new
            old = self.opened(row)
            new = Connection(
                old.name,
                old.kind,
                _merged(old.options, options),
                _merged(old.secrets, secrets),
                max(self._database.now(), old.revision + 1),
                origin=old.origin,
            )
            return self.sealed(new)

        with self.one_key():
            await self.update(stored_name(name), merged)
        assert new
        return new

    async def get(self, name: str) -> Connection:
        return self.opened(await self.row(stored_name(name)))

    async def list(self, *, with_secrets: bool = True) -> builtins.list[Connection]:
        """All connections; without their secrets, this works without the secret key."""
        return [self.opened(row, with_secrets=with_secrets) for row in await self.rows()]

    async def delete(self, name: str) -> None:
        await super().delete(stored_name(name))

    def normal(self, options: Mapping[str, str]) -> dict[str, str]:
        """These options as they are read back once stored: a file or folder can have several names."""
        return self._paths.resolved(self._paths.stored(options)) if self._paths else dict(options)

    @contextmanager
    def one_key(self) -> Iterator[None]:
        """Explain the error if credentials are already sealed with another key."""
        try:
            yield
        except OtherKey:
            raise Cluster(self._database).other_key() from None

    def sealed(self, connection: Connection) -> tuple[ConnectionRecord, str | None]:
        """The row, and the fingerprint of the key that its secrets are sealed with."""
        record = ConnectionRecord(
            connection.name,
            connection.kind,
            json.dumps(self._paths.stored(connection.options) if self._paths else connection.options),
            # Without secrets nothing is encrypted, so the connection works without the secret key.
            self._vault.seal(connection.secrets, connection.name) if connection.secrets else None,
            connection.revision,
            connection.volume_id,
            connection.origin,
        )
        return record, self._vault.fingerprint if connection.secrets else None

    def opened(self, row: ConnectionRecord, *, with_secrets: bool = True) -> Connection:
        sealed = row.secrets if with_secrets else None
        secrets = self._vault.open(sealed, row.name) if sealed is not None else {}
        options = json.loads(row.options)
        if self._paths:
            options = self._paths.resolved(options)
        return Connection(row.name, row.kind, options, secrets, row.revision, row.volume_id, row.origin)


def stored_name(name: str) -> str:
    """The name in its stored form; `NotFound` if no connection can have it."""
    try:
        return check_name(name, "connection")
    except InvalidRequest:
        raise unknown_connection(name) from None


def _merged(old: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}
