"""All rows of a database: read as of one moment, and put into another database, all or nothing.

The tables are read as they are, not as `tables` describes them, so the content of an older schema can be saved before
it is migrated, and is loaded into that schema before it is migrated.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import Connection, MetaData, Table, column, func, insert, select, table, text, tuple_
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from portico.model.errors import NotPossible, PorticoError
from portico.store import schema
from portico.store.database import Database
from portico.store.schema import LONGEST, LockLimits, change_schema, file_of
from portico.store.tables import cluster, journal, journal_proofs, metadata

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

SESSIONS: Final = frozenset({"families", "access_tokens", "refresh_tokens"})
MOMENTARY: Final = SESSIONS | {
    *("tickets", "invitations", "attempts", "leases", "idempotency_keys", "jobs"),
    *("guests", "guest_tickets", "guest_downloads", "changes_begun", "rewinds"),
}
"""Tables that are not part of a backup: a session that was ended since must not come back with it, nor the answer to a
change that a restore of the files has undone."""

_JOURNAL: Final = frozenset({journal.name, journal_proofs.name})

_BATCH: Final = 500
"""Rows that are in memory at a time."""

_MISFITS: Final = (
    IntegrityError,
    ProgrammingError,
    DataError,
    InterfaceError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""What a database, its driver and `Change` raise if a row has wrong values."""

Counts = dict[str, int]
Row = dict[str, Any]
Change = Callable[[str, Row], Row | None]
"""Called with a table's name and a row; the row to load instead, or None to leave it out."""


class Batch(NamedTuple):
    table: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Content:
    revision: str
    batches: Callable[[], AsyncIterator[Batch]]
    """Each table in an order that foreign keys allow, with at least one batch. It may be called again."""


async def values_in(content: Content) -> dict[str, str]:
    """The values in the table `cluster`, by name."""
    found = {}
    async for batch in content.batches():
        if batch.table == cluster.name:
            found.update(_named_values(batch))
    return found


def with_values(content: Content, values: Mapping[str, str]) -> Content:
    """The content with these values, except for empty ones, in the table `cluster`, if it has that table."""
    given = {name: value for name, value in values.items() if value}

    async def batches() -> AsyncIterator[Batch]:
        async for batch in content.batches():
            if batch.table == cluster.name:
                rows = {**_named_values(batch), **given}
                batch = Batch(cluster.name, ("name", "value"), list(rows.items()))
            yield batch

    return Content(content.revision, batches)


def _named_values(batch: Batch) -> dict[str, str]:
    rows = [dict(zip(batch.columns, row, strict=False)) for row in batch.rows]
    return {str(row.get("name")): str(row.get("value")) for row in rows}


class NotEmpty(NotPossible):
    """The target has rows already."""


class Mismatch(PorticoError, code="counts-differ"):
    """Not every row has arrived."""


class Misfit(PorticoError, code="rows-do-not-fit"):
    """Rows do not fit the tables that they belong to."""

    def __init__(self, table: str) -> None:
        self.why = f"it has rows that don't fit the table {table[:64]!r}"
        super().__init__(f"The content can't be loaded: {self.why}; nothing was changed.")


@asynccontextmanager
async def read(
    url: str, *, without: frozenset[str] = frozenset(), only: frozenset[str] = frozenset(metadata.tables)
) -> AsyncGenerator[Content]:
    """The content as of now, except for the tables `without`."""
    database = Database(url)
    try:
        async with database.snapshot(LONGEST) as connection:
            revision = await connection.run_sync(schema.revision_of)
            if revision is None:
                raise NotPossible(
                    f"The database {database.name} has no Portico tables yet; run 'portico migrate' to create them."
                )
            schema.check_age(f"The database {database.name}", revision)
            if revision > schema.newest_revision():
                raise NotPossible(
                    f"The database {database.name} was migrated by a newer version of Portico; run "
                    "this command with that version."
                )
            tables = await connection.run_sync(lambda sync: _tables(sync, only - without))
            yield Content(revision, lambda: _batches(connection, tables))
    finally:
        await database.close()


async def load(
    url: str, content: Content, *, replace: bool = False, change: Change | None = None, limits: LockLimits | None = None
) -> Counts:
    """Make the database have this content, migrated, and nothing else; returns the number of rows by table.

    One that has more than a journal is `NotEmpty`, unless `replace`.
    """
    schema.check_age("The backup", content.revision)
    if content.revision > schema.newest_revision():
        raise schema.newer(f"schema {content.revision}")

    async def work(connection: "AsyncConnection", name: str) -> Counts:
        await connection.run_sync(lambda sync: _empty(sync, name, replace=replace))
        await connection.run_sync(lambda sync: _make_tables(sync, content.revision))
        counts = await _insert(connection, content, change)
        await connection.run_sync(lambda sync: _compare(sync, counts))
        await connection.run_sync(schema.upgrade)
        await connection.run_sync(_check_references)
        await connection.run_sync(_set_sequences)
        return counts

    with without_new_file(url):
        return await change_schema(url, work, limits)


@contextmanager
def without_new_file(url: str) -> Iterator[None]:
    """Remove an SQLite file that a failure leaves behind, if there was none before."""
    file = file_of(url)
    existed = file is None or os.path.lexists(file)
    try:
        yield
    except BaseException:
        if file and not existed:
            for end in ("", "-wal", "-shm"):
                with suppress(OSError):
                    os.unlink(file + end)
        raise


def _tables(connection: Connection, names: AbstractSet[str] = frozenset(metadata.tables)) -> list[Table]:
    found = MetaData()
    found.reflect(connection, only=sorted(names & schema.table_names(connection)))
    return found.sorted_tables


async def _batches(connection: "AsyncConnection", tables: list[Table]) -> AsyncIterator[Batch]:
    for each in tables:
        keys = tuple(each.primary_key)
        names = tuple(each.columns.keys())
        page = select(each).order_by(*keys).limit(_BATCH)
        rows = (await connection.execute(page)).all()
        yield Batch(each.name, names, [tuple(row) for row in rows])
        while len(rows) == _BATCH:
            last = tuple(rows[-1]._mapping[key] for key in keys)
            rows = (await connection.execute(page.where(tuple_(*keys) > last))).all()
            yield Batch(each.name, names, [tuple(row) for row in rows])


def _empty(connection: Connection, name: str, *, replace: bool) -> None:
    """Remove all tables, after checking that nothing of value is lost."""
    revision = schema.revision_of(connection)
    if revision is not None and revision > schema.newest_revision():
        raise schema.newer(f"schema {revision} in {name}")
    tables = _tables(connection)
    if not replace and (found := _content_of(connection, tables)):
        raise NotEmpty(f"The database {name} is not empty: it has rows in {found}. Nothing was changed.")
    for each in reversed(tables):
        each.drop(connection)
    if revision is not None:
        connection.execute(text(f"DELETE FROM {schema.REVISIONS}"))  # noqa: S608


def _content_of(connection: Connection, tables: list[Table]) -> str:
    """What a database has, in words; nothing that a migration writes."""
    found = []
    for each in tables:
        if each.name not in {*MOMENTARY, *_JOURNAL}:  # it may say that an earlier try failed
            query = select(func.count()).select_from(each)
            if each.name == "cluster":
                query = query.where(each.c.name.not_in((schema.OLDEST_CODE, schema.LAST_BACKUP)))
            if count := connection.execute(query).scalar_one():
                found.append(f"{each.name} ({count})")
    return ", ".join(found)


def _make_tables(connection: Connection, revision: str) -> None:
    schema.upgrade(connection, revision)
    for each in reversed(_tables(connection)):
        connection.execute(each.delete())  # what migrations have written is part of the content


async def _insert(connection: "AsyncConnection", content: Content, change: Change | None) -> Counts:
    counts: Counts = {}
    found = await connection.run_sync(_tables)
    known = {each.name: set(each.columns.keys()) for each in found}
    async for batch in content.batches():
        if not set(batch.columns) <= known.get(batch.table, set()):
            raise Misfit(batch.table)
        try:
            rows = [dict(zip(batch.columns, row, strict=True)) for row in batch.rows]
            if change:
                rows = [new for row in rows if (new := change(batch.table, row)) is not None]
            if rows:
                await connection.execute(insert(table(batch.table, *map(column, batch.columns))), rows)
        except _MISFITS as error:
            raise Misfit(batch.table) from error
        counts[batch.table] = counts.get(batch.table, 0) + len(rows)
    return counts


def _compare(connection: Connection, counts: Counts) -> None:
    for name, expected in counts.items():
        found = connection.execute(select(func.count()).select_from(table(name))).scalar_one()
        if found != expected:
            raise Mismatch(f"The table {name} has {found} rows instead of {expected}; nothing was changed.")


def _check_references(connection: Connection) -> None:
    """`Misfit` if a row refers to a missing one. PostgreSQL checks this itself."""
    if connection.dialect.name == "sqlite":
        wrong = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        if wrong is not None:
            raise Misfit(wrong[0])


def _set_sequences(connection: Connection) -> None:
    """PostgreSQL does not count the ids that were given to it; SQLite does."""
    if connection.dialect.name != "postgresql":
        return
    for each in metadata.sorted_tables:
        if (counted := each.autoincrement_column) is not None:
            highest = select(func.max(counted)).scalar_subquery()
            sequence = func.pg_get_serial_sequence(each.name, counted.name)
            connection.execute(select(func.setval(sequence, func.coalesce(highest, 1), highest.is_not(None))))
