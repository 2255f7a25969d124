"""SQLite: one file, one writer at a time.

SQLAlchemy's plain engine runs behind the part of the asynchronous one that `Database` and its callers use. A statement
is one hop to a thread, or none in a command, which has nothing else to do. SQLAlchemy's own asynchronous engine imports
the whole ORM, and hops for each step of a statement.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from sqlalchemy import Connection, Engine, Executable, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import Pool, QueuePool

from portico.model.errors import TableMissing
from portico.runtime.threads import ThreadPool

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_CONNECTIONS = 8
"""Of one process: readers, and the writer whose turn it is. Each has a thread while it runs a statement."""

T = TypeVar("T")


class Sqlite:
    dialect = "sqlite"
    advice = "check that the file exists, is writable, and is not locked by another program"
    snapshot = "BEGIN"
    read_only = "0"

    def __init__(self, url: URL, *, wait: float, blocking: bool, foreign_keys: bool) -> None:
        """With `blocking`, it runs in this thread, for a process that has nothing else to do."""
        self._wait = wait
        self.file = file_of(url)
        self.name = url.database or ":memory:"
        self._plain = _engine(url, wait, blocking=blocking, foreign_keys=foreign_keys)
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

    @asynccontextmanager
    async def autocommit(
        self, wait: float, *, writes: bool, durable: bool
    ) -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
        """Runs one statement. It takes the write lock at its begin, as `begin` does for several."""
        async with self._turn() if writes else nullcontext():
            yield partial(self._plain.run, wait=wait, durable=durable, check=self._check_file_here)

    @asynccontextmanager
    async def transaction(self, wait: float, *, durable: bool) -> AsyncGenerator[Callable[..., Awaitable[Any]]]:
        """Runs a function as one transaction."""
        async with self._turn():
            yield partial(self._plain.transact, durable=durable, check=self._check_file_here)

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

    def problem(self, error: BaseException | None) -> tuple[type[TableMissing], str] | None:
        if not str(error).startswith(("no such table", "no such column")):
            return None
        return TableMissing, (
            f"the database {self.name} lacks a table or column of Portico ({error}): run 'portico migrate', or restore a backup"
        )

    def why(self, error: BaseException | None) -> str:
        return f"{type(error).__name__}: {error}".rstrip(": ")

    def file_is_writable(self) -> bool:
        """Whether the kernel would let this process write; nothing is tried."""
        return self.file is None or (
            os.access(self.file, os.W_OK) and os.access(os.path.dirname(self.file) or ".", os.W_OK)
        )

    def is_conflict(self, error: DBAPIError) -> bool:
        return False  # there is only one writer

    async def time(self) -> None:
        """It has no clock but that of this machine."""

    async def _check_file(self) -> None:
        """Detect a removed or replaced file: open connections would go on with the old one."""
        if self._is_replaced():
            await self.engine.dispose()

    def _check_file_here(self) -> None:
        """The same in the thread that is about to use the file."""
        if self._is_replaced():
            self._plain.dispose_here()

    def _is_replaced(self) -> bool:
        if self.file is None:
            return False
        info = os.stat(self.file)
        former, self._identity = self._identity, (info.st_dev, info.st_ino)
        return former not in (None, self._identity)

    async def close(self) -> None:
        await self._plain.close()

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        if not self.queued and not self._write_lock.locked():
            await self._write_lock.acquire()  # at once: a timer would be for nothing
        else:
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


class Caller(Protocol):
    async def __call__(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """The result of `work`. If the caller is cancelled meanwhile, `undo` is called with it."""


async def call_here(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    return work()


class ThreadCaller:
    """Calls in threads, of which each connection uses one at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPool(threads, "sqlite")

    async def __call__(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        future = self._threads.start(work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # The connection is in use until the thread is done with it.
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:
                    continue
            if future.exception() is None and undo:
                undo(future.result())
            raise
        finally:
            del future  # an error refers to this frame

    def close(self) -> None:
        self._threads.close()


class SqliteEngine:
    def __init__(self, engine: Engine, call: Caller, *, connections: int, wait: float) -> None:
        """At most `connections` are open at once; others are waited for, up to `wait` seconds."""
        self._engine = engine
        self._call = call
        self._wait = wait
        self._free = asyncio.Semaphore(connections)

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator["SqliteConnection"]:
        async with self._connection_slot(self._wait):
            connection = await self._call(self._engine.connect, Connection.close)
            try:
                yield SqliteConnection(connection, self._call)
            finally:
                await self._call(connection.close)

    async def run(
        self,
        statement: Executable,
        parameters: Any,
        wait: float | None = None,
        *,
        durable: bool = True,
        check: Callable[[], None] | None = None,
    ) -> Any:
        """The result of one statement, which is a transaction by itself, with one hop for all of it.

        A free connection is waited for at most `wait` seconds. What is not `durable` survives any process, but a power
        failure may take it back: the disk is not waited for. `check` is called first, in the same thread.
        """

        # Otherwise SQLite would commit each row by itself, and wait for the disk.
        begins = isinstance(parameters, Sequence)
        return await self._committed(
            lambda connection: _read(connection.execute(statement, parameters)),
            wait,
            begins=begins,
            durable=durable,
            check=check,
        )

    async def transact(
        self, work: Callable[[Connection], T], *, durable: bool = True, check: Callable[[], None] | None = None
    ) -> T:
        """The result of `work` in one transaction, with one hop for all of it. `durable`, `check`: as in `run`."""
        return await self._committed(work, None, begins=True, durable=durable, check=check)

    async def _committed(
        self,
        work: Callable[[Connection], T],
        wait: float | None,
        *,
        begins: bool,
        durable: bool,
        check: Callable[[], None] | None,
    ) -> T:
        def commit() -> T:
            if check:
                check()
            with self._engine.connect() as connection:
                driver = connection.connection.dbapi_connection
                with nullcontext() if durable else _relaxed(driver):  # not possible within a transaction
                    try:
                        if begins:
                            connection.exec_driver_sql("BEGIN IMMEDIATE")
                        result = work(connection)
                        connection.commit()
                    except BaseException:
                        connection.rollback()
                        raise
                return result

        async with self._connection_slot(wait or self._wait):
            return await self._call(commit)

    @asynccontextmanager
    async def _connection_slot(self, wait: float) -> AsyncGenerator[None]:
        if self._free.locked():
            async with asyncio.timeout(wait):
                await self._free.acquire()
        else:
            await self._free.acquire()  # at once: a timer would be for nothing
        try:
            yield
        finally:
            self._free.release()

    @property
    def pool(self) -> Pool:
        return self._engine.pool

    async def dispose(self) -> None:
        """Close the connections that are not in use; others are opened when they are needed."""
        await self._call(self.dispose_here)

    def dispose_here(self) -> None:
        """The same in this thread."""
        self._engine.dispose()

    async def close(self) -> None:
        await self.dispose()
        if isinstance(self._call, ThreadCaller):
            await asyncio.to_thread(self._call.close)  # it waits for statements that are under way


class SqliteConnection:
    def __init__(self, connection: Connection, call: Caller) -> None:
        self._connection = connection
        self._call = call

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[None]:
        transaction = self._connection.begin()  # nothing is sent yet
        try:
            yield
            await self._call(transaction.commit)
        except BaseException:
            if transaction.is_active:
                await self._call(transaction.rollback)
            raise

    async def execute(self, *arguments: Any) -> Any:
        return await self._run(lambda: self._connection.execute(*arguments))

    async def scalars(self, *arguments: Any) -> Any:
        return (await self.execute(*arguments)).scalars()

    async def exec_driver_sql(self, *arguments: Any) -> Any:
        return await self._run(lambda: self._connection.exec_driver_sql(*arguments))

    async def run_sync(self, work: Callable[[Connection], T]) -> T:
        return await self._call(lambda: work(self._connection))

    async def _run(self, execute: Callable[[], Any]) -> Any:
        return await self._call(lambda: _read(execute()))


@contextmanager
def _relaxed(driver: Any) -> Iterator[None]:
    driver.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        driver.execute("PRAGMA synchronous = FULL")


def _read(result: Any) -> Any:
    """The result with all of its rows: SQLite computes each when it is fetched."""
    return result.freeze()() if result.returns_rows else result


def _engine(url: URL, wait: float, *, blocking: bool, foreign_keys: bool) -> SqliteEngine:
    connections = 1 if file_of(url) is None else _CONNECTIONS
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        hide_parameters=True,
        # `isolation_level` None: sqlite3 starts no transactions by itself. No two threads use a connection at once.
        connect_args={"isolation_level": None, "timeout": wait, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        # The last one used: what it has cached of the file is still valid unless another connection wrote meanwhile.
        pool_use_lifo=True,
    )
    event.listen(engine, "connect", partial(_prepare, foreign_keys=foreign_keys))
    call = call_here if blocking else ThreadCaller(connections)
    return SqliteEngine(engine, call, connections=connections, wait=wait)


def _prepare(connection: Any, _: object, *, foreign_keys: bool) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
    # A disabled user or an ended session must not come back after a power failure.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
