"""Access to the database: SQLite by default, PostgreSQL by URL."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Row, Table, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from portico.errors import InvalidRequest, Unavailable
from portico.store.blocking import BlockingEngine

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

WAIT: Final = 5
"""How long a statement waits for a lock or a free connection, in seconds, before it fails as unavailable."""

AnyRow: TypeAlias = Row[*tuple[Any, ...]]

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}
_ADVICE = {
    "sqlite": "check that the file exists, is writable, and is not locked by another program",
    "postgresql": "check that it is running, and the setting database.url",
}
_OUR_ERRORS = (IntegrityError, ProgrammingError, DataError, NotSupportedError)

# At debug level it logs every statement with its parameters: hashes, digests, encrypted credentials.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)


class Database:
    """Raises `Unavailable` if the database fails; a violated constraint stays an `IntegrityError`."""

    def __init__(self, url: str, *, wait: float = WAIT, blocking: bool = False) -> None:
        """With `blocking`, SQLite runs in this thread, for a process that has nothing else to do."""
        self._wait = wait
        parsed = _parse(url)
        in_thread = blocking and parsed.get_backend_name() == "sqlite"
        self._engine = _blocking_engine(parsed, wait) if in_thread else _engine(parsed, wait)
        self.dialect = self._engine.dialect.name
        # Writers of this process queue here, in order and without a connection, so that they neither poll SQLite's
        # lock against each other nor use up the readers' connections.
        self._write_lock = asyncio.Lock() if self.dialect == "sqlite" else None
        self._queued = 0
        self._file = _file_of(self._engine.url)
        self._name = _name_of(self._engine.url)
        self._identity: tuple[int, int] | None = None

    def begin(
        self, within: "AsyncConnection | None" = None
    ) -> "AbstractAsyncContextManager[AsyncConnection]":
        """A transaction that may write; with `within`, part of that running transaction."""
        return nullcontext(within) if within is not None else self._transaction()

    def connect(
        self, within: "AsyncConnection | None" = None
    ) -> "AbstractAsyncContextManager[AsyncConnection]":
        """A connection for reading: each statement sees what was committed before it."""
        return nullcontext(within) if within is not None else self._reading()

    async def ping(self) -> None:
        """Read a table that only a migrated database has; `SELECT 1` would not even open SQLite's file."""
        async with self._reading() as connection:
            await connection.execute(text("SELECT version_num FROM alembic_version"))

    @property
    def queued(self) -> int:
        """Writers of this process that wait for the write lock."""
        return self._queued

    async def close(self) -> None:
        await self._engine.dispose()

    @asynccontextmanager
    async def _transaction(self) -> "AsyncGenerator[AsyncConnection]":
        async with self._exclusive(), self._connection() as connection, connection.begin():
            if self.dialect == "sqlite":
                # Take the write lock now: a transaction that reads first could fail when it writes.
                await connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @asynccontextmanager
    async def _reading(self) -> "AsyncGenerator[AsyncConnection]":
        async with self._connection() as connection:
            if self.dialect != "sqlite":
                await connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    @asynccontextmanager
    async def _connection(self) -> "AsyncGenerator[AsyncConnection]":
        await self._check_file()
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(self._engine.connect())
            except Exception as error:  # drivers raise many kinds of errors when they connect
                raise self._unavailable(error) from error
            with self._translated():
                yield connection

    async def _check_file(self) -> None:
        """Detect a removed or replaced SQLite file: open connections would go on with the old one."""
        if self._file is None:
            return
        try:
            info = os.stat(self._file)
        except OSError as error:
            raise self._unavailable(error) from error
        identity = (info.st_dev, info.st_ino)
        if self._identity is not None and identity != self._identity:
            await self._engine.dispose()
        self._identity = identity

    @asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        if self._write_lock is None:
            yield
            return
        self._queued += 1
        try:
            async with asyncio.timeout(self._wait):
                await self._write_lock.acquire()
        except TimeoutError as error:
            raise self._unavailable(error) from error
        finally:
            self._queued -= 1
        try:
            yield
        finally:
            self._write_lock.release()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _OUR_ERRORS:
            raise
        except (DBAPIError, PoolTimeout, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> Unavailable:
        original = error.orig if isinstance(error, DBAPIError) else error
        why = f"{type(original).__name__}: {original}".rstrip(": ")
        return Unavailable(
            "The gateway's database does not answer; try again in a moment.",
            retry_after=1,
            cause=f"the database {self._name} cannot be used; {_ADVICE[self.dialect]} ({why})",
        )


def upsert(dialect: str, table: Table, change: Mapping[str, Any]) -> "postgresql.Insert | sqlite.Insert":
    """Insert rows; where the primary key exists, set the columns in `change` of the existing row."""
    # Each dialect is slow to import, and commands need neither.
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    return insert(table).on_conflict_do_update(index_elements=list(table.primary_key), set_=dict(change))


def _file_of(url: URL) -> str | None:
    in_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return url.database if in_file else None


def _name_of(url: URL) -> str:
    """The database for messages, without user, password, or query, which may hold both."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{url.host or url.query.get('host') or 'localhost'}{port}/{url.database or ''}"


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.drivername not in {*_DRIVERS, *_DRIVERS.values()}:
        raise InvalidRequest("The database URL must begin with 'sqlite:///' or 'postgresql://'.")
    return parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))


def _engine(url: URL, wait: float) -> "AsyncEngine":
    from sqlalchemy.ext.asyncio import create_async_engine

    if url.get_backend_name() == "sqlite":
        engine = create_async_engine(url, **_sqlite_options(wait))
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        return engine
    try:
        return create_async_engine(
            url,
            hide_parameters=True,
            pool_timeout=wait,
            pool_pre_ping=True,
            connect_args={"timeout": wait, "command_timeout": wait},
        )
    except ModuleNotFoundError:
        raise InvalidRequest(
            "PostgreSQL needs an extra; install it with: pip install 'portico-gateway[postgres]'"
        ) from None


def _blocking_engine(url: URL, wait: float) -> Any:
    engine = BlockingEngine(create_engine(url.set(drivername="sqlite+pysqlite"), **_sqlite_options(wait)))
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    return engine


def _sqlite_options(wait: float) -> dict[str, Any]:
    return {
        "hide_parameters": True,
        "pool_timeout": wait,
        # `isolation_level` None: sqlite3 starts no transactions by itself.
        "connect_args": {"isolation_level": None, "timeout": wait},
    }


def _prepare_sqlite(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA foreign_keys = ON")
    # A disabled user or an ended session must not come back after a power failure.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()
