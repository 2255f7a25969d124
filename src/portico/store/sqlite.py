"""SQLite: one file, one writer at a time."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from portico.store.blocking import BlockingEngine

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

# At debug level it logs every statement with its parameters: hashes, digests, encrypted credentials.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)


class Sqlite:
    dialect = "sqlite"
    advice = "check that the file exists, is writable, and is not locked by another program"
    snapshot = "BEGIN"
    read_only = "0"

    def __init__(self, url: URL, *, wait: float, blocking: bool) -> None:
        """With `blocking`, it runs in this thread, for a process that has nothing else to do."""
        self._wait = wait
        self._file = file_of(url)
        self.name = url.database or ":memory:"
        self.engine: AsyncEngine = _blocking_engine(url, wait) if blocking else _engine(url, wait)
        self._identity: tuple[int, int] | None = None
        # Writers of this process queue here, in order and without a connection, so that they neither poll SQLite's
        # lock against each other nor use up the readers' connections.
        self._write_lock = asyncio.Lock()
        self.queued = 0

    @asynccontextmanager
    async def reading(self, wait: float) -> "AsyncGenerator[AsyncConnection]":
        await self._check_file()
        async with self.engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def writing(self, wait: float) -> "AsyncGenerator[AsyncConnection]":
        async with self._turn():
            await self._check_file()
            async with self.engine.connect() as connection:
                yield connection

    async def begin(self, connection: "AsyncConnection") -> None:
        # Take the write lock now: a transaction that reads first could fail when it writes.
        await connection.exec_driver_sql("BEGIN IMMEDIATE")

    @asynccontextmanager
    async def batch(self, connection: "AsyncConnection") -> AsyncGenerator[None]:
        yield

    def lacking(self, tables: list[str]) -> tuple[str, str]:
        """SQLite has no rights, and a query of a missing table fails as such."""
        return "NULL", "NULL"

    def problem(self, error: BaseException | None) -> None:
        return None

    def why(self, error: BaseException | None) -> str:
        return f"{type(error).__name__}: {error}".rstrip(": ")

    def file_is_writable(self) -> bool:
        """Whether the kernel would let this process write; nothing is tried."""
        return self._file is None or (
            os.access(self._file, os.W_OK) and os.access(os.path.dirname(self._file) or ".", os.W_OK)
        )

    def is_conflict(self, error: DBAPIError) -> bool:
        return False  # there is only one writer

    async def time(self) -> None:
        """It has no clock but that of this machine."""

    async def _check_file(self) -> None:
        """Detect a removed or replaced file: open connections would go on with the old one."""
        if self._file is None:
            return
        info = os.stat(self._file)
        identity = (info.st_dev, info.st_ino)
        if self._identity is not None and identity != self._identity:
            await self.engine.dispose()
        self._identity = identity

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        self.queued += 1
        try:
            async with asyncio.timeout(self._wait):
                await self._write_lock.acquire()
        finally:
            self.queued -= 1
        try:
            yield
        finally:
            self._write_lock.release()


def file_of(url: URL) -> str | None:
    return url.database if url.database not in (None, "", ":memory:") else None


def _engine(url: URL, wait: float) -> "AsyncEngine":
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.set(drivername="sqlite+aiosqlite"), **_options(wait))
    event.listen(engine.sync_engine, "connect", _prepare)
    return engine


def _blocking_engine(url: URL, wait: float) -> Any:
    engine = BlockingEngine(create_engine(url.set(drivername="sqlite+pysqlite"), **_options(wait)))
    event.listen(engine.sync_engine, "connect", _prepare)
    return engine


def _options(wait: float) -> dict[str, Any]:
    return {
        "hide_parameters": True,
        "pool_timeout": wait,
        # `isolation_level` None: sqlite3 starts no transactions by itself.
        "connect_args": {"isolation_level": None, "timeout": wait},
    }


def _prepare(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    # A disabled user or an ended session must not come back after a power failure.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
