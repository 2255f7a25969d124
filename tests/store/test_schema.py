"""Migrations of released databases, newer and older code on one database, and locks."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, column, insert, inspect, select, table, text
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts.cluster import Cluster
from portico.accounts.connections import Connections
from portico.accounts.vault import SecretKey, Vault
from portico.drive.connection_pool import Drives
from portico.model.errors import NotPossible, Unavailable
from portico.operations.readiness import Readiness
from portico.store import schema as schema_changes
from portico.store.database import Database
from portico.store.schema import (
    LockLimits,
    Migration,
    change_schema,
    is_current,
    migrate,
    newest_revision,
    upgrade,
)
from portico.store.tables import metadata

from ..servers.postgres import PostgresServer
from .released_schemas import INDEXES_0002, REVISION_0002, ROWS_0002, STATEMENTS_0002


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database()
    return f"sqlite:///{tmp_path / 'portico.db'}"


@pytest.fixture
async def released(empty_url: str) -> str:
    """A database of the last release, with data."""
    if empty_url.startswith("sqlite"):
        Path(empty_url.removeprefix("sqlite:///")).touch()
    database = Database(empty_url)
    async with database.begin() as transaction:
        for statement in (REVISION_0002[database.dialect] + INDEXES_0002).split(";"):
            if statement.strip():
                await transaction.execute(text(statement))
        for name, rows in ROWS_0002.items():
            target = table(name, *map(column, rows[0]))
            await transaction.execute(insert(target), rows)
        if database.dialect == "postgresql":
            await transaction.execute(text("SELECT setval('users_id_seq', 9)"))
    await database.close()
    return empty_url


async def _rows(url: str, name: str) -> list[dict[str, Any]]:
    database = Database(url)
    try:
        found = await database.fetch(select(metadata.tables[name]))
        return [dict(row._mapping) for row in found]
    finally:
        await database.close()


async def test_the_released_tables_are_those_of_the_old_migrations(
    released: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    def described(connection: Connection) -> dict[str, Any]:
        found = inspect(connection)
        return {
            name: (
                sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
                sorted((i["name"] or "", i["column_names"]) for i in found.get_indexes(name) if not i["unique"]),
                found.get_pk_constraint(name)["constrained_columns"],
                sorted((f["constrained_columns"], f["referred_table"], f["options"].get("ondelete"))
                       for f in found.get_foreign_keys(name)),
            )
            for name in found.get_table_names()
        }  # fmt: skip

    is_sqlite = released.startswith("sqlite")
    url = f"sqlite:///{tmp_path / 'built.db'}" if is_sqlite else postgres.new_database()

    async def build(connection: AsyncConnection, _: str) -> dict[str, Any]:
        await connection.run_sync(lambda sync: upgrade(sync, "0002"))
        return await connection.run_sync(described)

    built = await change_schema(url, build)
    database = Database(released)
    async with database.connect() as reading:
        assert await reading.run_sync(described) == built
    await database.close()


async def test_a_released_database_keeps_all_its_rows(released: str) -> None:
    assert migrate(released) == Migration("0002", newest_revision())
    for name, rows in ROWS_0002.items():
        found = [
            {column: row[column] for column in rows[0]} for row in await _rows(released, name)
        ]  # without the columns that were added since
        assert sorted(found, key=repr) == sorted(rows, key=repr), name
    database = Database(released)
    assert await is_current(database)
    connections = Connections(database, Vault(SecretKey.generate()))
    await connections.add("more", "local", {}, {})
    await database.close()
    assert migrate(released) == Migration(newest_revision(), newest_revision())


async def test_statements_like_those_of_the_last_release_work_with_the_new_schema(released: str) -> None:
    migrate(released)
    database = Database(released)
    async with database.begin() as transaction:
        for statement in STATEMENTS_0002:
            await transaction.execute(text(statement.replace(":", r"\:")))
    await database.close()
    assert len(await _rows(released, "users")) == 2


async def test_the_schema_names_the_oldest_code_that_can_use_it(database: Database) -> None:
    row = await database.first(text("SELECT value FROM cluster WHERE name = 'oldest-code'"))
    assert row is not None
    assert "0002" <= row.value <= newest_revision()


async def _pretend(database: Database, revision: str, oldest_code: str | None) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))
        await transaction.execute(text("DELETE FROM cluster WHERE name = 'oldest-code'"))
        if oldest_code is not None:
            await transaction.execute(text(f"INSERT INTO cluster VALUES ('oldest-code', '{oldest_code}')"))


async def test_a_newer_schema_that_allows_this_code_is_used_and_not_changed(
    database: Database, url: str
) -> None:
    await _pretend(database, "9999", newest_revision())
    assert await is_current(database)
    assert migrate(url) == Migration("9999", "9999")
    assert await is_current(database)


@pytest.mark.parametrize("oldest_code", ["9998", None])
async def test_a_newer_schema_that_does_not_is_refused_with_the_sentence(
    database: Database, url: str, oldest_code: str | None
) -> None:
    await _pretend(database, "9999", oldest_code)
    with pytest.raises(NotPossible, match="newer version of Portico"):
        await is_current(database)
    with pytest.raises(NotPossible, match="newer version of Portico") as refusal:
        migrate(url)
    assert "newer version of Portico" in (refusal.value.cause or "")
    readiness = Readiness(database, Drives.__new__(Drives), None)
    assert "newer version of Portico" in (await readiness._database_faults())[0].detail


async def test_readiness_names_the_command_for_an_older_schema(database: Database) -> None:
    await _pretend(database, "0002", None)
    [fault] = await Readiness(database, Drives.__new__(Drives), None)._database_faults()
    assert "portico migrate" in fault.detail


async def test_what_the_cluster_agrees_on_is_not_the_schema(database: Database) -> None:
    cluster = Cluster(database)
    assert await cluster.identity() == {}
    await cluster.agree({"name": "value"})
    await cluster.forget()
    assert await cluster.identity() == {}
    assert await is_current(database)


class TestLocks:
    IMPATIENT = LockLimits(queue=0.1, table=0.1, tries=2)

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(schema_changes, "_PAUSE", 0.05)

    def test_a_migration_does_not_queue_behind_a_long_transaction(self, postgres: PostgresServer) -> None:
        url = postgres.new_database()
        migrate(url)
        with psycopg.connect(url) as holder:
            holder.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Unavailable, match="long transaction keeps tables") as failure:
                migrate(url, limits=self.IMPATIENT)
            assert "canary" not in failure.value.detail
        assert migrate(url, limits=self.IMPATIENT).before == newest_revision()

    def test_a_migration_goes_on_when_the_lock_is_free(self, postgres: PostgresServer) -> None:
        url = postgres.new_database()
        migrate(url)
        with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watcher:
            holder.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
            done: list[Migration] = []
            limits = LockLimits(table=0.1, tries=1000)
            migrating = threading.Thread(target=lambda: done.append(migrate(url, limits=limits)))
            migrating.start()
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL"
            while watcher.execute(waiting).fetchone() == (0,):
                assert migrating.is_alive()
            holder.rollback()
            migrating.join()
        assert len(done) == 1

    def test_a_second_migration_waits_only_so_long(self, postgres: PostgresServer) -> None:
        url = postgres.new_database()
        with psycopg.connect(url) as holder:
            holder.execute("SELECT pg_advisory_xact_lock(%s)", [schema_changes._LOCK])
            with pytest.raises(Unavailable, match="Another node has been migrating") as failure:
                migrate(url, limits=self.IMPATIENT)
            assert "try again" in failure.value.detail
        assert migrate(url).before is None

    def test_of_many_nodes_one_migrates_and_the_others_wait(self, postgres: PostgresServer) -> None:
        url = postgres.new_database()
        with ThreadPoolExecutor(4) as nodes:
            done = list(nodes.map(migrate, [url] * 4))
        assert sorted(each.before or "" for each in done) == ["", *[newest_revision()] * 3]
