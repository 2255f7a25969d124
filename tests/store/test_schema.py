"""Migrations to the next version, refusals of older ones, newer and older code on one database, and locks."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import delete, insert, select, text

from portico.accounts.cluster import Cluster
from portico.accounts.connections import Connections
from portico.accounts.vault import SecretKey, Vault
from portico.drive.connection_pool import ConnectionPool
from portico.model.errors import NotPossible, Unavailable
from portico.operations.readiness import Readiness
from portico.store import schema as schema_changes
from portico.store.database import Database
from portico.store.schema import LockLimits, Migration, is_current, migrate, newest_revision, oldest_revision
from portico.store.tables import metadata, users

from ..servers.postgres import PostgresServer
from .next_version import NEXT, ROWS, next_version


async def _rows(url: str, name: str) -> list[dict[str, Any]]:
    database = Database(url)
    try:
        found = await database.fetch(select(metadata.tables[name]))
        return [dict(row._mapping) for row in found]
    finally:
        await database.close()


@pytest.fixture
async def filled(database: Database) -> Database:
    async with database.begin() as transaction:
        for name, rows in ROWS.items():
            await transaction.execute(insert(metadata.tables[name]), rows)
    return database


async def test_the_next_version_migrates_a_database_with_all_its_rows(
    filled: Database, url: str, tmp_path: Path
) -> None:
    newest, before = newest_revision(), {name: await _rows(url, name) for name in metadata.tables}
    with next_version(tmp_path):
        assert not await is_current(filled)
        assert migrate(url) == Migration(newest, NEXT)
        assert migrate(url) == Migration(NEXT, NEXT)
        assert await is_current(filled)
    assert {name: await _rows(url, name) for name in metadata.tables} == before


async def test_this_version_works_with_a_database_that_the_next_one_has_migrated(
    filled: Database, url: str, tmp_path: Path
) -> None:
    with next_version(tmp_path):
        migrate(url)
    assert await is_current(filled)
    assert migrate(url) == Migration(NEXT, NEXT)
    await Connections(filled, Vault(SecretKey.generate())).add("more", "local", {}, {})
    async with filled.begin() as transaction:
        await transaction.execute(delete(users))
        await transaction.execute(insert(users), ROWS["users"])


@pytest.mark.parametrize("revision", ["0001", "0009"])
async def test_an_older_database_is_refused_with_the_commit_that_migrates_it(
    database: Database, url: str, revision: str
) -> None:
    await _pretend(database, revision, None)
    sentence = rf"is too old for this version of Portico \(schema {revision}\): migrate .* commit [0-9a-f]{{7}}, "
    with pytest.raises(NotPossible, match=sentence):
        await is_current(database)
    with pytest.raises(NotPossible, match=sentence):
        migrate(url)
    [fault] = await Readiness(database, ConnectionPool.__new__(ConnectionPool), None)._database_faults()
    assert re.search(sentence, fault.detail)


async def test_the_schema_names_the_oldest_code_that_can_use_it(database: Database) -> None:
    row = await database.first(text("SELECT value FROM cluster WHERE name = 'oldest-code'"))
    assert row is not None
    assert oldest_revision() <= row.value <= newest_revision()


async def _pretend(database: Database, revision: str, oldest_code: str | None) -> None:
    async with database.begin() as transaction:
        await transaction.execute(text(f"UPDATE alembic_version SET version_num = '{revision}'"))
        await transaction.execute(text("DELETE FROM cluster WHERE name = 'oldest-code'"))
        if oldest_code is not None:
            await transaction.execute(text(f"INSERT INTO cluster VALUES ('oldest-code', '{oldest_code}')"))


async def test_a_newer_schema_that_allows_this_code_is_used_and_not_changed(database: Database, url: str) -> None:
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
    readiness = Readiness(database, ConnectionPool.__new__(ConnectionPool), None)
    assert "newer version of Portico" in (await readiness._database_faults())[0].detail


async def test_readiness_names_the_command_for_an_older_schema(database: Database, tmp_path: Path) -> None:
    with next_version(tmp_path):
        [fault] = await Readiness(database, ConnectionPool.__new__(ConnectionPool), None)._database_faults()
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
