"""SQLAlchemy's plain engine behind the part of the asynchronous one that `Database` and its callers use.

A statement is one hop to a thread, or none in a command, which has nothing else to do. SQLAlchemy's own asynchronous
engine imports the whole ORM, and hops for each step of a statement.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Executable

T = TypeVar("T")


class Caller(Protocol):
    """Calls what blocks."""

    async def __call__(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """The result of `work`. If the caller is cancelled meanwhile, `undo` is called with it."""


async def call_here(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    return work()


class ThreadCaller:
    """Calls in threads, of which each connection uses one at a time."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="sqlite")

    async def __call__(self, work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
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
        self, statement: Executable, parameters: Any, wait: float | None = None, *, durable: bool = True
    ) -> Any:
        """The result of one statement, which is a transaction by itself, with one hop for all of it.

        A free connection is waited for at most `wait` seconds. What is not `durable` survives any process, but a power
        failure may take it back: the disk is not waited for.
        """

        def work() -> Any:
            with self._engine.connect() as connection:
                with nullcontext() if durable else _relaxed(connection):  # not possible within a transaction
                    try:
                        # Otherwise SQLite would commit each row by itself, and wait for the disk.
                        if isinstance(parameters, Sequence):
                            connection.exec_driver_sql("BEGIN IMMEDIATE")
                        result = _read(connection.execute(statement, parameters))
                        connection.commit()
                    except BaseException:
                        connection.rollback()
                        raise
                return result

        async with self._connection_slot(wait or self._wait):
            return await self._call(work)

    @asynccontextmanager
    async def _connection_slot(self, wait: float) -> AsyncGenerator[None]:
        async with asyncio.timeout(wait):
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    async def dispose(self) -> None:
        await self._call(self._engine.dispose)


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
def _relaxed(connection: Connection) -> Iterator[None]:
    driver: Any = connection.connection.dbapi_connection
    driver.execute("PRAGMA synchronous = NORMAL")
    try:
        yield
    finally:
        driver.execute("PRAGMA synchronous = FULL")


def _read(result: Any) -> Any:
    """The result with all of its rows: SQLite computes each when it is fetched."""
    return result.freeze()() if result.returns_rows else result
