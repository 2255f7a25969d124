"""A transaction that changes the schema: alone, private, and without keeping others waiting."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from portico.errors import Unavailable
from portico.store import sqlite
from portico.store.database import Database

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

_WAIT = 60  # another process may be migrating
LONGEST = 3600
"""Seconds that a migration, or a copy of all rows, may take."""
_LOCK = 0x706F727469636F  # "portico": the advisory lock of migrations
_LOCK_NOT_AVAILABLE = "55P03"
_PAUSE = 1.0


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
    url: str,
    work: "Callable[[AsyncConnection, str], Awaitable[T]]",
    limits: LockLimits | None = None,
) -> T:
    """The result of `work`, called with a transaction and the database's name, while no other process migrates.

    It is called again if it does not get a lock in time.
    """
    limits = limits or LockLimits()
    _make_private(url)
    database = Database(url, wait=_WAIT)
    try:
        if database.dialect == "sqlite":
            await _use_wal(database)
        for left in reversed(range(limits.tries)):
            try:
                async with database.begin(LONGEST) as connection:
                    if database.dialect == "postgresql":
                        await _take_lock(connection, database.name, limits)
                    with _lock_failures(database.name):
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
    try:
        await connection.execute(text(f"SET LOCAL lock_timeout = {round(limits.queue * 1000)}"))
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        await connection.execute(text(f"SET LOCAL lock_timeout = {round(limits.table * 1000)}"))
    except DBAPIError as error:
        if not _is_lock_failure(error):
            raise
        sentence = f"Another node has been migrating the database {name} for {limits.queue:g} s"
        raise Unavailable(f"{sentence}; try again when it is done.", retry_after=5) from error


@contextmanager
def _lock_failures(name: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        if not _is_lock_failure(error):
            raise
        raise _Locked(
            f"A long transaction keeps tables of the database {name} locked, so they cannot be changed now; nothing was "
            "changed. End that transaction (see pg_stat_activity), or try again later.",
            retry_after=5,
        ) from error


def _is_lock_failure(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE


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
            raise Unavailable(f"The database file {file} cannot be opened: {error.strerror}.") from error


def file_of(url: str) -> str | None:
    return sqlite.file_of(make_url(url)) if url.startswith("sqlite") else None
