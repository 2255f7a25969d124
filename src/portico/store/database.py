"""Access to the database: SQLite by default, PostgreSQL by URL."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    Executable,
    Row,
    Table,
    bindparam,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    true,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import AsyncAdaptedQueuePool, QueuePool

from portico.model.errors import InvalidRequest, Unavailable
from portico.runtime import clock
from portico.store.postgres import CONNECTIONS, Postgres
from portico.store.sqlite import Sqlite
from portico.store.tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.dialects import postgresql, sqlite
    from sqlalchemy.ext.asyncio import AsyncConnection

WAIT: Final = 5
"""How long a transaction may take, and wait for a lock or a free connection, in seconds, before it is unavailable."""

SWEEP_WAIT: Final = 60
"""The same for the removal of what has expired, which may be much."""

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
Statement: TypeAlias = Executable
"""What one module of `store` makes for another, which runs it in its own transaction."""
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
T = TypeVar("T")
Record = TypeVar("Record", bound=msgspec.Struct)

_OUR_ERRORS = (IntegrityError, ProgrammingError, DataError, NotSupportedError)


class _Conflict(Unavailable):
    """The transaction was rolled back because of another one."""


class _Broken(Unavailable):
    """The connection broke before the transaction was committed."""


class DatabaseState(NamedTuple):
    revision: str
    writable: bool
    missing_tables: str | None
    missing_rights: str | None
    """Such as `INSERT on users`."""
    values: list[Any]


class Database:
    """Raises `Unavailable` if the database fails; a violated constraint stays an `IntegrityError`."""

    def __init__(
        self,
        url: str,
        *,
        wait: float = WAIT,
        connections: int = CONNECTIONS,
        blocking: bool = False,
        foreign_keys: bool = True,
    ) -> None:
        """`connections`: of PostgreSQL. With `blocking`, SQLite runs in this thread. Without `foreign_keys`, SQLite does
        not enforce them, so that a migration can replace a table."""
        self._wait = wait
        self._backend = _backend(url, wait, connections, blocking, foreign_keys)
        self.dialect = self._backend.dialect
        self.file = self._backend.file
        """Of SQLite, unless it is in memory."""
        self.name = self._backend.name
        """For messages: without user and password."""
        self._learned: tuple[int, float] | None = None
        """The database's time at a moment of this machine's uptime."""
        self.write_failed = False
        """Whether the last write of this process did: then others may fail, too."""

    async def fetch(
        self, query: Executable, parameters: Parameters = None, *, wait: float | None = None
    ) -> Sequence[AnyRow]:
        """The rows of one query, which sees what was committed before it."""
        return await _retried(lambda: self._run(query, parameters, wait=wait, read=_rows), _Conflict, _Broken)

    async def first(self, query: Executable, parameters: Parameters = None) -> AnyRow | None:
        rows = await self.fetch(query, parameters)
        return rows[0] if rows else None

    async def execute(
        self, statement: Executable, parameters: Parameters = None, *, wait: float | None = None, durable: bool = True
    ) -> int:
        """Run one statement as a transaction of its own; returns how many rows it changed.

        What is not `durable` survives any process; with SQLite, a power failure may take it back.
        """
        # If the connection breaks, it may have been committed.
        return await _retried(
            lambda: self._run(statement, parameters, wait=wait, read=_row_count, writes=True, durable=durable),
            _Conflict,
        )

    async def write(
        self, statement: Executable, parameters: Parameters = None, *, durable: bool = True
    ) -> Sequence[AnyRow]:
        """As `execute`, for a statement with RETURNING: the rows that it returns."""
        return await _retried(
            lambda: self._run(statement, parameters, read=_rows, writes=True, durable=durable), _Conflict
        )

    async def write_in_turn(
        self, rows: "Select[Any]", statement: Executable, parameters: Mapping[str, Any]
    ) -> Sequence[AnyRow]:
        """As `write`, one at a time of those that name the same `rows`: what the statement counts holds until it is committed."""
        if self.dialect == "sqlite":  # there is only one writer
            return await self.write(statement, parameters)

        async def work(transaction: "AsyncConnection") -> Sequence[AnyRow]:
            # Rows that refer to these can still be inserted.
            await transaction.execute(rows.with_for_update(key_share=True))
            return (await transaction.execute(statement, parameters)).all()

        return await self.transact(work)

    async def transact(self, work: "Callable[[AsyncConnection], Awaitable[T]]", *, wait: float | None = None) -> T:
        """The result of `work` in one transaction, which may take `wait` seconds.

        `work` is called again if the transaction failed by a deadlock or a broken connection.
        """

        async def once() -> T:
            async with self.begin(wait) as transaction:
                return await work(transaction)

        return await _retried(once, _Conflict, _Broken)

    async def at_once(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """The result of `work` in one transaction, without a hop between its statements. `durable`: as in `execute`.

        `work` is called again if the transaction was rolled back because of another one.
        """

        async def once() -> T:
            with self._noted():
                async with self._opened(partial(self._backend.transaction, durable=durable)) as run:
                    result: T = await run(work)
                return result

        return await _retried(once, _Conflict)

    @asynccontextmanager
    async def begin(self, wait: float | None = None) -> "AsyncGenerator[AsyncConnection]":
        """A transaction that is tried once: prefer `transact`."""
        committing = False
        with self._noted():
            async with self._opened(self._backend.writing, wait) as connection:
                try:
                    async with connection.begin():
                        await self._backend.begin(connection)
                        yield connection
                        committing = True
                except DBAPIError as error:
                    if committing and error.connection_invalidated:  # it may have been committed: no second try
                        raise self._unavailable(error, Unavailable) from error
                    raise

    @asynccontextmanager
    async def connect(self, wait: float | None = None) -> "AsyncGenerator[AsyncConnection]":
        """A connection for reading several times, tried once: prefer `fetch`."""
        async with self._opened(self._backend.reading, wait) as connection:
            yield connection

    @asynccontextmanager
    async def snapshot(self, wait: float) -> "AsyncGenerator[AsyncConnection]":
        """A connection for reading whose statements all see the same moment; writers go on meanwhile."""
        source = self._backend.reading if self.dialect == "sqlite" else self._backend.writing
        async with self._opened(source, wait) as connection, connection.begin():
            await connection.exec_driver_sql(self._backend.snapshot)
            yield connection

    def batch(self, transaction: "AsyncConnection") -> AbstractAsyncContextManager[None]:
        """Statements within are sent together; their results cannot be read."""
        return self._backend.batch(transaction)

    async def state(self, *columns: ColumnElement[Any], wait: float | None = None) -> DatabaseState:
        """The schema's revision, what can be done with it, and the values of `columns`, with one query."""
        own = self._backend.read_only, *self._backend.lacking(list(metadata.tables))
        chosen: list[ColumnElement[Any]] = [column("version_num"), *map(literal_column, own), *columns]
        query = select(*chosen).select_from(table("alembic_version"))  # `SELECT 1` would not even open SQLite's file
        rows = await self.fetch(query, wait=wait)
        row: Sequence[Any] = rows[0] if rows else ("", False, None, None, *(None for _ in columns))
        revision, read_only, tables, rights, *values = row
        writable = not read_only and self._backend.file_is_writable()
        return DatabaseState(revision, writable, tables, rights, values)

    def now(self) -> int:
        """Milliseconds since the epoch, by the database's clock: the same on every node, whatever its own clock does."""
        if self._learned is None:
            return clock.now()
        there, uptime = self._learned
        return there + round((clock.uptime() - uptime) * 1000)

    @property
    def clock_offset(self) -> int:
        """Milliseconds that the database's clock is ahead of this machine's."""
        return self.now() - clock.now()

    async def learn_clock(self) -> None:
        """Read the database's clock, if it has one; if that fails, what was learned last stays."""
        with self._translated():
            if (there := await self._backend.time()) is not None:
                self._learned = there, clock.uptime()

    @property
    def queued(self) -> int:
        """Writers of this process that wait for SQLite's write lock."""
        return self._backend.queued

    @property
    def connections(self) -> tuple[int, int]:
        """How many connections of this process are in use, and how many may be."""
        pool = self._backend.engine.pool
        assert isinstance(pool, QueuePool | AsyncAdaptedQueuePool)
        return pool.checkedout(), pool.size()

    async def close(self) -> None:
        await self._backend.close()

    async def _run(
        self,
        statement: Executable,
        parameters: Parameters,
        *,
        read: Callable[[Any], T],
        wait: float | None = None,
        writes: bool = False,
        durable: bool = True,
    ) -> T:
        """What `read` makes of the result of one statement, which is a transaction by itself."""
        autocommit = partial(self._backend.autocommit, writes=writes, durable=durable)
        with self._noted() if writes else nullcontext():
            async with self._opened(autocommit, wait) as execute:
                return read(await execute(statement, parameters))

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Unavailable:
            self.write_failed = True
            raise
        self.write_failed = False

    @asynccontextmanager
    async def _opened(
        self, open_connection: Callable[[float], AbstractAsyncContextManager[T]], wait: float | None = None
    ) -> AsyncGenerator[T]:
        with self._translated():
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(wait if wait and wait < self._wait else None):
                        connection = await stack.enter_async_context(open_connection(wait or self._wait))
                except Exception as error:  # drivers raise many kinds of errors when they connect
                    raise self._unavailable(error) from error
                yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _OUR_ERRORS as error:
            if self._backend.problem(error.orig):
                raise self._unavailable(error) from error
            raise
        except (DBAPIError, PoolTimeout, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception, kind: type[Unavailable] | None = None) -> Unavailable:
        original = error.orig if isinstance(error, DBAPIError) else error
        if problem := self._backend.problem(original):
            kind, cause = problem
        else:
            why = self._backend.why(original) or type(original).__name__
            cause = f"the database {self.name} can't be used; {self._backend.advice} ({why})"
        return (kind or self._kind(error))(
            "The gateway's database doesn't respond. Try again in a moment.", retry_after=1, cause=cause
        )

    def _kind(self, error: Exception) -> type[Unavailable]:
        if not isinstance(error, DBAPIError):
            return Unavailable
        if error.connection_invalidated:
            return _Broken
        return _Conflict if self._backend.is_conflict(error) else Unavailable


def _rows(result: Any) -> Sequence[AnyRow]:
    rows: Sequence[AnyRow] = result.all()
    return rows


def _row_count(result: Any) -> int:
    count: int = result.rowcount
    return count


async def _retried(work: Callable[[], Awaitable[T]], *errors: type[Unavailable]) -> T:
    """The result of `work`, which is called once more after one of these errors."""
    try:
        return await work()
    except errors:
        return await work()


def upsert(
    dialect: str, table: Table, change: Mapping[str, Any], *, where: ColumnElement[bool] | None = None
) -> "postgresql.Insert | sqlite.Insert":
    """Insert rows; where the primary key exists, set the columns in `change` of the existing row, if it is as `where`."""
    # Each dialect is slow to import, and commands need neither.
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_or_change
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_or_change  # type: ignore[assignment]
    return insert_or_change(table).on_conflict_do_update(
        index_elements=list(table.primary_key), set_=dict(change), where=where
    )


def record_of(kind: type[Record], row: AnyRow) -> Record:
    """The structure in a row whose columns have the names of its fields."""
    return kind(*(getattr(row, name) for name in kind.__struct_encode_fields__))


def surplus(
    key: Column[Any], *, per: Column[Any], newest: Column[Any], most: int, where: ColumnElement[bool] | None = None
) -> Delete:
    """Deletes all rows but the newest of each group, or of those in it that are as `where`."""
    number = func.row_number().over(partition_by=per, order_by=newest.desc()).label("number")
    numbered = select(key, number).where(true() if where is None else where).subquery()
    return delete(key.table).where(key.in_(select(numbered.c[key.name]).where(numbered.c.number > most)))


def inserting(table: Table, *conditions: ColumnElement[bool]) -> Executable:
    """Inserts a row with the values of `new_row`, if all conditions hold. It returns the row's primary key."""
    values = select(*(bindparam(f"new_{each.name}", type_=each.type).label(each.name) for each in table.c))
    return insert(table).from_select([*table.c], values.where(*conditions)).returning(*table.primary_key)


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert rows, except for those that are there; returns how many there were. One call of the driver: with SQLite, each call would release the
    interpreter's lock and wait for it again."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    names = table.c.keys()
    columns, marks = ", ".join(f'"{name}"' for name in names), ", ".join([mark] * len(names))
    inserted = connection.exec_driver_sql(
        f"INSERT INTO {table.name} ({columns}) VALUES {', '.join([f'({marks})'] * len(rows))} "  # noqa: S608
        "ON CONFLICT DO NOTHING",
        tuple(row[name] for row in rows for name in names),
    )
    return inserted.rowcount


def new_row(table: Table, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of `inserting`: all columns have to be among the values."""
    return {f"new_{each.name}": values[each.name] for each in table.c}


def _backend(url: str, wait: float, connections: int, blocking: bool, foreign_keys: bool) -> Sqlite | Postgres:
    scheme = url.partition("://")[0].partition("+")[0]
    if scheme in ("postgresql", "postgres"):
        return Postgres(url, wait=wait, connections=connections)
    try:
        parsed = make_url(url) if scheme == "sqlite" else None
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.drivername not in ("sqlite", "sqlite+aiosqlite"):
        raise InvalidRequest("The database URL must begin with 'sqlite:///' or 'postgresql://'.")
    return Sqlite(parsed, wait=wait, blocking=blocking, foreign_keys=foreign_keys)
