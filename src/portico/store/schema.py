"""Bringing a database to the shape of `tables`."""

import asyncio
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from portico.errors import NotPossible, Unavailable
from portico.store.database import Database

_MIGRATIONS = pathlib.Path(__file__).parent / "migrations"
_WAIT = 60  # another process may be migrating
_LOCK = 0x706F727469636F  # "portico", the number that migrating processes agree on


def migrate(url: str) -> None:
    """Bring the database at `url` to the newest revision.

    Any number of processes may do so at once: one works, the others wait and find it done.
    """
    _make_private(url)
    # In a thread of its own, so that a caller inside an event loop is served too.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _migrate(url)).result()


async def _migrate(url: str) -> None:
    database = Database(url, wait=_WAIT)
    try:
        if database.dialect == "sqlite":
            await _use_wal(database)
        async with database.begin() as connection:
            if database.dialect == "postgresql":
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
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
            "The database was made by a newer Portico than this one; start that version, or restore a backup.",
            cause=str(error),
        ) from error


async def _use_wal(database: Database) -> None:
    """Readers beside a writer; the file remembers it. SQLite does not wait for a lock here, so we do."""
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
    """A new SQLite file is for its owner alone; its side files take over its mode."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database and parsed.database != ":memory:":
        try:
            os.close(os.open(parsed.database, os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Unavailable(
                f"The database file {parsed.database} cannot be opened: {error.strerror}."
            ) from error
