"""SQLite: one file, one writer at a time."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Executable, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from portico.store.sqlite_engine import SqliteEngine, ThreadCaller, call_here

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_CONNECTIONS = 8
"""Of one process: readers, and the writer whose turn it is. Each has a thread while it runs a statement."""


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
        self._plain = _engine(url, wait, blocking=blocking)
        self.engine = cast("AsyncEngine", self._plain)
        """As much of one as is used."""
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

    async def run(
        self, statement: Executable, parameters: Any, wait: float | None, *, writes: bool, durable: bool
    ) -> Any:
        """The result of one statement. It takes the write lock at its begin, as `begin` does for several."""
        async with self._turn() if writes else nullcontext():
            await self._check_file()
            return await self._plain.run(statement, parameters, wait, durable=durable)

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


def _engine(url: URL, wait: float, *, blocking: bool) -> SqliteEngine:
    connections = 1 if file_of(url) is None else _CONNECTIONS
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        hide_parameters=True,
        # `isolation_level` None: sqlite3 starts no transactions by itself. No two threads use a connection at once.
        connect_args={"isolation_level": None, "timeout": wait, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
    )
    event.listen(engine, "connect", _prepare)
    call = call_here if blocking else ThreadCaller(connections)
    return SqliteEngine(engine, call, connections=connections, wait=wait)


def _prepare(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    # A disabled user or an ended session must not come back after a power failure.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
