"""Databases of PostgreSQL that tests take one after another: emptying one is quicker than making and dropping one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from .postgres import PostgresServer

_DISCONNECT = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_SEQUENCES = """
SELECT setval(format('%I', sequencename)::regclass, start_value, false) FROM pg_sequences WHERE last_value IS NOT NULL
"""
_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
_DEFINITIONS = """
SELECT
    (SELECT (datdba, datacl, datallowconn, datconnlimit, datistemplate)::text FROM pg_database
        WHERE datname = current_database()),
    (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
        WHERE datname = current_database()),
    (SELECT md5(string_agg(looked::text, ' ' ORDER BY relname)) FROM
        (SELECT relname, relowner, relacl, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace) AS looked),
    (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384)
""" + "".join(
    # A change of a definition is a new row of its catalog, made by a later transaction, or one row less.
    f", (SELECT (count(*), max(xmin::text::bigint))::text FROM {catalog})"
    for catalog in ("pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_namespace", "pg_proc", "pg_trigger")
)


class LentDatabases:
    """Each is like the template when a test gets it."""

    def __init__(self, server: PostgresServer, template: str) -> None:
        self._server = server
        self._template = template
        self._free: list[tuple[str, psycopg.Connection[Any]]] = []
        with psycopg.connect(server.url(template)) as connection:
            self._definitions = connection.execute(_DEFINITIONS).fetchone()
            self._rows = {table: _copied(connection, table) for table in _filled(connection)}

    @contextmanager
    def one(self) -> Iterator[str]:
        """The URL of one that nobody else uses until the end of the block."""
        url, connection = self._free.pop() if self._free else self._new()
        yield url
        try:
            with connection.transaction():
                self._restore(connection)
            self._free.append((url, connection))
        except (psycopg.Error, _Changed):
            connection.close()
            self._server.drop_database(url)

    def close(self) -> None:
        for _, connection in self._free:
            connection.close()

    def _new(self) -> tuple[str, psycopg.Connection[Any]]:
        url = self._server.new_database(self._template)
        # It stays open: what a connection looks up in the catalog at first would take most of the time.
        return url, psycopg.connect(url, autocommit=True)

    def _restore(self, connection: psycopg.Connection[Any]) -> None:
        # What still runs of the test would otherwise write after this. It has ended when the answer comes.
        connection.execute(_DISCONNECT)
        if connection.execute(_DEFINITIONS).fetchone() != self._definitions:
            raise _Changed
        if filled := _filled(connection):
            connection.execute(SQL("TRUNCATE {} CASCADE").format(SQL(", ").join(map(Identifier, filled))))
        connection.execute(_SEQUENCES)
        for table, rows in self._rows.items():
            with connection.cursor().copy(SQL("COPY {} FROM STDIN").format(Identifier(table))) as copy:
                copy.write(rows)


class _Changed(Exception):
    """A test has changed more than rows."""


def _filled(connection: psycopg.Connection[Any]) -> list[str]:
    tables = [name for (name,) in connection.execute(_TABLES)]
    looks = [SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(name, Identifier(name)) for name in tables]
    return [name for (name,) in connection.execute(SQL(" UNION ALL ").join(looks))]


def _copied(connection: psycopg.Connection[Any], table: str) -> bytes:
    with connection.cursor().copy(SQL("COPY {} TO STDOUT").format(Identifier(table))) as copy:
        return b"".join(map(bytes, copy))
