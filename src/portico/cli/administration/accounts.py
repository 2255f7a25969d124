"""The accounts of a home, opened for one command."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from portico.cli.administration import home as homes
from portico.cli.console.terminal import warn
from portico.model.errors import PorticoError

if TYPE_CHECKING:
    from portico.accounts.connections import Connection, Connections
    from portico.accounts.groups import Groups
    from portico.accounts.mounts import Mounts
    from portico.accounts.users import Users
    from portico.accounts.vault import SecretKey
    from portico.drive.connection_pool import ConnectionPool
    from portico.model.paths import Path as StoragePath
    from portico.observability.audit import AuditLine
    from portico.providers.contract.provider import Provider
    from portico.settings.settings import Settings
    from portico.store.database import Database
    from portico.store.journal import Journal
    from portico.store.signatures import Signer


T = TypeVar("T")


class Accounts(msgspec.Struct, frozen=True):
    settings: "Settings"
    database: "Database"
    users: "Users"
    groups: "Groups"
    mounts: "Mounts"
    connections: "Connections"
    journal: "Journal"
    signer: "Signer | None"
    """None without the secret key."""


@asynccontextmanager
async def audited(
    journal: "Journal", action: str, subject: str, changed: Collection[str] = ()
) -> "AsyncIterator[AuditLine]":
    """Record the change that happens inside, with the names of the changed fields, and what is put into the line."""
    from portico.observability.audit import AuditLine

    line = AuditLine(user=f"os:{homes.my_name()}", action=action, subject=subject, outcome="internal")
    line.changed = sorted(changed) or msgspec.UNSET
    recording = journal.recording(line)
    await recording.begin()
    try:
        yield line
        line.outcome = "done"
    except PorticoError as error:
        line.outcome = error.code
        raise
    finally:
        await recording.settle(line.outcome)


def with_accounts(home: Path, action: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `action` on the accounts of an existing home, whose database is migrated if necessary."""
    return with_settings(homes.existing(home), action)


def read_accounts(home: Path, action: Callable[[Accounts], Awaitable[T]]) -> T:
    """As `with_accounts`, for an `action` that changes nothing: a database of an older version stays as it is."""
    return with_settings(homes.existing(home), action, reads_only=True)


def change(home: Path, action: str, subject: str, work: Callable[[Accounts], Awaitable[T]]) -> T:
    """Run `work`, which changes `subject`, and record it as `action`."""

    async def recorded(accounts: Accounts) -> T:
        async with audited(accounts.journal, action, subject):
            return await work(accounts)

    return with_accounts(home, recorded)


def with_settings(
    settings: "Settings",
    action: Callable[[Accounts], Awaitable[T]],
    *,
    make_key: bool = False,
    reads_only: bool = False,
) -> T:
    """Run `action` on the accounts. With a shared database, a missing key is made only with `make_key`."""
    import asyncio

    from portico.accounts.connections import Connections, HomePaths
    from portico.accounts.groups import Groups
    from portico.accounts.mounts import Mounts
    from portico.accounts.passwords import Passwords
    from portico.accounts.users import Users
    from portico.accounts.vault import Vault
    from portico.providers.contract.registry import PATH_OPTIONS

    async def call() -> T:
        async with opened_database(settings, reads_only=reads_only) as database:
            key = await _secret_key(settings, database, make_key=make_key)
            vault, passwords = Vault(key), Passwords()
            signer = _signer(key)
            journal = open_journal(settings, database, signer)
            paths = HomePaths(str(settings.home), PATH_OPTIONS, keep_relative=settings.database_in_home)
            users, groups, mounts = Users(database, passwords), Groups(database), Mounts(database)
            connections = Connections(database, vault, paths)
            accounts = Accounts(settings, database, users, groups, mounts, connections, journal, signer)
            try:
                return await action(accounts)
            finally:
                await journal.close()
                passwords.close()

    return asyncio.run(call())


def _signer(key: "SecretKey | None") -> "Signer | None":
    from portico.store.signatures import Signer

    return Signer(key.derive("receipts")) if key else None


def open_journal(
    settings: "Settings", database: "Database", signer: "Signer | None", *, retries: bool = False
) -> "Journal":
    """`retries`: as of `Journal`."""
    from portico.observability.audit import open_audit
    from portico.store.journal import Journal

    def lose(why: str, lost: int) -> None:
        if lost == 1 and not settings.audit_required:  # otherwise the command fails with this error
            warn(f"the audit log can't be written ({why}).")

    required = settings.audit_required
    audit = open_audit(settings.audit_file, required=required, command=True, on_loss=lose, node=settings.node_in_audit)
    return Journal(
        database, audit, node=settings.node, is_required=required, retries=retries, on_loss=lose, signer=signer
    )


def run_audited(settings: "Settings", action: str, subject: str, work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` and record it, for a command that does not open the accounts."""
    import asyncio

    async def call() -> T:
        async with database_as_it_is(settings.database_url) as database:
            journal = open_journal(settings, database, _signer(await _known_key(settings, database)))
            try:
                async with audited(journal, action, subject):
                    return await work()
            finally:
                await journal.close()

    return asyncio.run(call())


@asynccontextmanager
async def database_as_it_is(url: str) -> "AsyncIterator[Database]":
    """The database, whatever its schema."""
    from portico.store.database import Database

    database = Database(url, blocking=True)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def opened_pool(accounts: Accounts, **options: Any) -> "AsyncIterator[ConnectionPool]":
    """The drives of connections. `options`: as `ConnectionPool` takes them."""
    from portico.drive.connection_pool import ConnectionPool
    from portico.drive.cursors import CursorSeal
    from portico.observability.metrics import Metrics
    from portico.store.leases import Leases

    settings = accounts.settings
    leases = Leases(accounts.database, settings.node)
    timeout = settings.provider_timeout.total_seconds()
    pool = ConnectionPool(accounts.connections, CursorSeal(b""), Metrics(), leases, timeout=timeout, **options)
    try:
        yield pool
    finally:
        await pool.close()


@asynccontextmanager
async def opened_provider(
    accounts: Accounts, connection: "Connection"
) -> "AsyncIterator[tuple[Provider, StoragePath]]":
    """The storage of a connection, and the folder in it that is the connection's root."""
    from portico.model.paths import Path as StoragePath
    from portico.providers.contract.registry import PREFIX_OPTION, open_provider

    timeout = accounts.settings.provider_timeout.total_seconds()
    provider = open_provider(connection.kind, {**connection.options, **connection.secrets}, timeout)
    try:
        provider.expect_volume(connection.volume_id)
        yield provider, StoragePath.parse(connection.options.get(PREFIX_OPTION, ""))
    finally:
        await provider.close()


@asynccontextmanager
async def opened_database(settings: "Settings", *, reads_only: bool = False) -> "AsyncIterator[Database]":
    """The database. If this version needs a newer schema, and the settings allow it, it is migrated, and the user is told.

    A command that `reads_only` never migrates: it works with an older schema if that has everything the command reads.
    """
    from portico.model.errors import TableMissing
    from portico.store.schema import check_present, is_current, migrate, needs_migration

    async with database_as_it_is(settings.database_url) as database:
        current, mark = await is_current(database), settings.home / homes.SET_UP_MARK
        if not current and reads_only:
            check_present(settings.database_url, mark)
        elif not current:
            if not settings.database_migrate:
                raise needs_migration(database.name)
            done = migrate(settings.database_url, set_up_mark=mark)
            if done.before not in (None, done.after):
                print(f"Migrated the database from schema {done.before} to {done.after}.", file=sys.stderr)
        await database.learn_clock()
        try:
            yield database
        except TableMissing:
            if current:
                raise
            raise needs_migration(database.name) from None


async def _known_key(settings: "Settings", database: "Database") -> "SecretKey | None":
    """The key, if this node has that of the database. The command works without it, and without a database."""
    from portico.accounts.cluster import Cluster
    from portico.accounts.vault import BadSecretKey, SecretKey
    from portico.model.errors import Unavailable
    from portico.store.cluster import KEY

    try:
        if not SecretKey.exists(settings.secret_key_file):
            return None
        key = SecretKey.load(settings.secret_key_file)
        agreed = (await Cluster(database).identity()).get(KEY)
    except BadSecretKey:
        return None
    except Unavailable:
        agreed = None
    return key if agreed in (None, key.fingerprint()) else None


async def _secret_key(settings: "Settings", database: "Database", *, make_key: bool) -> "SecretKey | None":
    """The key; with a shared database, that of all nodes. Nothing is written to the database: the command may fail."""
    from portico.accounts.cluster import Cluster
    from portico.accounts.vault import SecretKey
    from portico.store.cluster import KEY

    file, cluster = settings.secret_key_file, Cluster(database)
    if not settings.database_in_home:
        key = await cluster.own_key(file)
        return SecretKey.load(file) if key is None and make_key else key
    if not SecretKey.exists(file) and KEY in await cluster.identity():
        return None  # another one would not open what is sealed
    return SecretKey.load(file)
