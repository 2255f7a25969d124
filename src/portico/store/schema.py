"""Migrating a database to the schema in `tables`."""

import asyncio
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Connection, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ProgrammingError

from portico.errors import NotPossible, Unavailable
from portico.store import sqlite
from portico.store.database import Database

_MIGRATIONS = pathlib.Path(__file__).parent / "migrations"
_REVISIONS = "alembic_version"
_NEEDED = {_REVISIONS, "users", "connections"}
_WAIT = 60  # another process may be migrating
_LOCK = 0x706F727469636F  # "portico": the advisory lock of migrations


def newest_revision() -> str:
    """From the file names, `v0001_….py`: Alembic, which reads it from the files, is slow to import."""
    return max(file.name[1:5] for file in (_MIGRATIONS / "versions").glob("v[0-9]*.py"))


async def is_current(database: Database) -> bool:
    """Whether the database needs no migration, with one query."""
    try:
        # Users and connections are part of the query because a database without these tables is not current.
        query = "SELECT version_num, EXISTS (SELECT 1 FROM users), EXISTS (SELECT 1 FROM connections)"
        rows = await database.fetch(text(f"{query} FROM alembic_version"))
    except ProgrammingError:
        return False
    except Unavailable:
        if database.dialect == "sqlite":
            return False  # the file or the table is missing; `migrate` says which
        raise
    return [row.version_num for row in rows] == [newest_revision()]


def migrate(url: str, *, set_up_mark: pathlib.Path | None = None) -> None:
    """Migrate the database at `url` to the newest revision.

    Any number of processes may do so at once: one migrates, the others wait.

    If the file `set_up_mark` exists, the database was set up before: then an empty one is `NotPossible`, because its users
    and connections are lost.
    """
    was_set_up = set_up_mark is not None and set_up_mark.exists()
    if was_set_up and _is_absent(url):
        raise _emptied(_file(url) or "", set_up_mark)
    _make_private(url)
    # In a thread, so that it works inside an event loop too.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _migrate(url, set_up_mark if was_set_up else None)).result()


async def _migrate(url: str, set_up_mark: pathlib.Path | None) -> None:
    database = Database(url, wait=_WAIT)
    try:
        if database.dialect == "sqlite":
            await _use_wal(database)
        async with database.begin() as connection:
            if database.dialect == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            tables = await connection.run_sync(lambda sync: set(inspect(sync).get_table_names()))
            if _NEEDED - tables and (set_up_mark or _REVISIONS in tables):
                raise _emptied(database.name, set_up_mark)
            await connection.run_sync(_upgrade)
    finally:
        await database.close()


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise NotPossible(
            "The database was created by a newer version of Portico; start that version, or restore a backup.",
            cause=str(error),
        ) from error


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
    if file := _file(url):
        try:
            os.close(os.open(file, os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Unavailable(f"The database file {file} cannot be opened: {error.strerror}.") from error


def _is_absent(url: str) -> bool:
    """Whether the SQLite file is missing or empty."""
    file = _file(url)
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
        f"The database {place} is missing, empty or without its tables, although this gateway was set up before: "
        f"restore it from a backup; or, to start again without its users and connections, remove {set_up_mark}."
    )


def _file(url: str) -> str | None:
    return sqlite.file_of(make_url(url)) if url.startswith("sqlite") else None
