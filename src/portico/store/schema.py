"""The schema of a database: its revision, which code can use it, and migrations to the one in `tables`.

Migrations expand first, and contract in a later release: what they add does not disturb code of the release before,
and what that code uses is removed only by a migration that moves `OLDEST_CODE` beyond it. So the nodes of a cluster
can be upgraded one after another.
"""

import asyncio
import os
import pathlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from portico.model.errors import NotPossible, TableMissing, Unavailable
from portico.store import sqlite
from portico.store.database import Database
from portico.store.tables import cluster

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

_WAIT = 60  # another process may be migrating
LONGEST = 3600
"""Seconds that a migration, or a copy of all rows, may take."""
_LOCK = 0x706F727469636F  # "portico": the advisory lock of migrations
_LOCK_NOT_AVAILABLE = "55P03"
_PAUSE = 1.0


_NOTHING_CHANGED = (
    "Nothing was changed, because a long transaction keeps tables of the database {} locked. "
    "End that transaction (see pg_stat_activity), or try again later."
)


class LockLimits(msgspec.Struct, frozen=True):
    """How long a migration of PostgreSQL waits for locks, in seconds."""

    queue: float = 60
    """For the migration of another node to end."""
    table: float = 5
    """For one lock on a table: while it waits, all others who use the table wait behind it."""
    tries: int = 10
    """How often it begins again after that."""


class _Locked(Unavailable):
    """A lock could not be had in time."""


async def change_schema(
    url: str, work: "Callable[[AsyncConnection, str], Awaitable[T]]", limits: LockLimits | None = None
) -> T:
    """The result of `work`, called with a transaction and the database's name, while no other process migrates.

    It is called again if it does not get a lock in time.
    """
    limits = limits or LockLimits()
    _make_private(url)
    # SQLite would delete what refers to a table that is replaced.
    database = Database(url, wait=_WAIT, foreign_keys=False)
    try:
        if database.dialect == "sqlite":
            await _use_wal(database)
        for left in reversed(range(limits.tries)):
            try:
                async with database.begin(LONGEST) as connection:
                    if database.dialect == "postgresql":
                        await _take_lock(connection, database.name, limits)
                    with _lock_failures(_Locked, _NOTHING_CHANGED.format(database.name)):
                        return await work(connection, database.name)
            except _Locked:
                if not left:
                    raise
                await asyncio.sleep(_PAUSE)
        raise AssertionError("no try is left")
    finally:
        await database.close()


async def _take_lock(connection: "AsyncConnection", name: str, limits: LockLimits) -> None:
    """The lock of migrations; from then on, no statement waits long for a lock."""
    sentence = f"Another node has been migrating the database {name} for {limits.queue:g} s; try again when it is done."
    with _lock_failures(Unavailable, sentence):
        await connection.execute(text(f"SET LOCAL lock_timeout = {round(limits.queue * 1000)}"))
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        await connection.execute(text(f"SET LOCAL lock_timeout = {round(limits.table * 1000)}"))


@contextmanager
def _lock_failures(kind: type[Unavailable], sentence: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise kind(sentence, retry_after=5) from error


async def _use_wal(database: Database) -> None:
    """Allow readers beside a writer; stored in the file. SQLite does not wait for a lock here, so this does."""
    for _ in range(_WAIT * 20):
        try:
            async with database.connect() as connection:
                await connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            return
        except Unavailable as error:
            if "locked" not in (error.cause or ""):
                raise
            await asyncio.sleep(0.05)
    raise Unavailable("Another process keeps the database locked; stop it and try again.", retry_after=5)


def _make_private(url: str) -> None:
    """Create a new SQLite file with mode 0600; its side files get the same mode."""
    if file := file_of(url):
        try:
            os.close(os.open(file, os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Unavailable(f"The database file {file} can't be opened: {error.strerror}.") from error


def file_of(url: str) -> str | None:
    return sqlite.file_of(make_url(url)) if url.startswith("sqlite") else None


_MIGRATIONS = pathlib.Path(__file__).parent / "migrations"
REVISIONS = "alembic_version"
_NEEDED = {REVISIONS, "users", "connections"}
OLDEST_CODE = "oldest-code"
"""The row of the table `cluster` with the oldest revision whose code can still use the database. Migrations set it."""
LAST_BACKUP = "last-backup"
"""The row of the same table with the time of the last backup, in seconds since 1970."""
OLDEST_CODE_VALUE = select(cluster.c.value).where(cluster.c.name == OLDEST_CODE).scalar_subquery()


class Migration(msgspec.Struct, frozen=True):
    before: str | None
    """The revision that the database had; None if it was empty."""
    after: str


_LAST_BEFORE: Final = "96f6fd2"
"""The last commit with the migrations to the oldest revision."""


@cache
def _revisions() -> list[str]:
    """From the file names, `v0010_….py`: Alembic, which reads them from the files, is slow to import."""
    return sorted(file.name[1:5] for file in (_MIGRATIONS / "versions").glob("v[0-9]*.py"))


def newest_revision() -> str:
    return _revisions()[-1]


def oldest_revision() -> str:
    return _revisions()[0]


async def is_current(database: Database) -> bool:
    """Whether this version can use the database without a migration, with one query.

    A newer schema can be used if its oldest code is not newer than this one; otherwise it is `NotPossible`.
    """
    try:
        # Users and connections are part of the query because a database without these tables is not current.
        query = "SELECT version_num, EXISTS (SELECT 1 FROM users), EXISTS (SELECT 1 FROM connections)"
        query += f", (SELECT value FROM cluster WHERE name = '{OLDEST_CODE}') AS oldest_code"  # noqa: S608
        rows = await database.fetch(text(f"{query} FROM {REVISIONS}"))
    except TableMissing:
        return False
    except Unavailable:
        if database.dialect == "sqlite":
            return False  # the file or the table is missing; `migrate` says which
        raise
    return len(rows) == 1 and is_usable(rows[0].version_num, rows[0].oldest_code)


def needs_migration(name: str) -> NotPossible:
    return NotPossible(
        f"The database {name} lacks the schema {newest_revision()} that this version of Portico "
        "needs; run 'portico migrate' once."
    )


def is_usable(revision: str, oldest_code: str | None) -> bool:
    """Whether this version can use a database with this schema; `NotPossible` if it is too new or too old."""
    newest = newest_revision()
    if revision <= newest:
        check_age("The database", revision)
        return revision == newest
    if oldest_code is None or oldest_code > newest:
        raise newer(f"schema {revision}, this version has {newest}")
    return True


def check_age(what: str, revision: str) -> None:
    """`NotPossible` if `what`, a database or a backup, is older than all migrations."""
    if revision < oldest_revision():
        raise NotPossible(
            f"{what} is too old for this version of Portico (schema {revision}): migrate or restore it with commit "
            f"{_LAST_BEFORE}, the last one that can."
        )


def newer(cause: str) -> NotPossible:
    sentence = "The database was created by a newer version of Portico; start that version, or restore a backup"
    return NotPossible(f"{sentence}.", cause=f"{sentence} ({cause})")


def migrate(url: str, *, set_up_mark: pathlib.Path | None = None, limits: LockLimits | None = None) -> Migration:
    """Migrate the database at `url` to the newest revision; one that is newer, but can be used, stays as it is.

    Any number of processes may do so at once: one migrates, the others wait.

    If the file `set_up_mark` exists, the database was set up before: then an empty one is `NotPossible`, because its users
    and connections are lost.
    """
    check_present(url, set_up_mark)
    mark = set_up_mark if set_up_mark and set_up_mark.exists() else None

    async def work(connection: "AsyncConnection", name: str) -> Migration:
        tables = await connection.run_sync(table_names)
        if _NEEDED - tables and (mark or REVISIONS in tables):
            raise _emptied(name, mark)
        before = await connection.run_sync(revision_of)
        if before is not None:
            check_age(f"The database {name}", before)
        if before is not None and before > newest_revision():
            is_usable(before, (await connection.execute(select(OLDEST_CODE_VALUE))).scalar())
            return Migration(before, before)
        await connection.run_sync(upgrade)
        return Migration(before, newest_revision())

    return in_thread(change_schema(url, work, limits))


def check_present(url: str, set_up_mark: pathlib.Path | None) -> None:
    """`NotPossible` if the SQLite file is gone or empty although it was set up before: see `migrate`."""
    if set_up_mark and set_up_mark.exists() and _is_absent(url):
        raise _emptied(file_of(url) or "", set_up_mark)


def in_thread(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work` in an event loop of its own, so that it can be called inside of another one, too."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def table_names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def revision_of(connection: Connection) -> str | None:
    """The revision of the database; None if it has none."""
    if REVISIONS not in table_names(connection):
        return None
    return connection.execute(text(f"SELECT version_num FROM {REVISIONS}")).scalar()  # noqa: S608


def upgrade(connection: Connection, revision: str = "head") -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, revision)
    except CommandError as error:
        raise newer(str(error)) from error


def _is_absent(url: str) -> bool:
    """Whether the SQLite file is missing or empty."""
    file = file_of(url)
    try:
        return file is not None and os.stat(file).st_size == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False  # `_make_private` reports it


def _emptied(place: str, set_up_mark: pathlib.Path | None) -> NotPossible:
    if set_up_mark is None:
        return NotPossible(f"The database {place} has lost its tables; restore it from a backup.")
    return NotPossible(
        f"The database {place} is missing or has lost its tables, although this gateway was set up "
        "before; restore it from a backup or, to start over without its users and connections, "
        f"remove {set_up_mark}."
    )
