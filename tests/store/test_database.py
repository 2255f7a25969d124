import asyncio
import pathlib
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Executable, insert, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from portico.accounts.cluster import Cluster
from portico.model.errors import InvalidRequest, NotPossible, Unavailable
from portico.store import schema
from portico.store.database import Database, upsert
from portico.store.schema import is_current, migrate, newest_revision
from portico.store.sessions import _REFRESHABLE, _USERS, SESSION
from portico.store.tables import attempts, connections, metadata, mounts, users
from portico.store.tickets import _BY_TICKET


async def add_connection(database: Database, name: str) -> None:
    await database.execute(_added(name))


def _added(name: str) -> Executable:
    return insert(connections).values(name=name, kind="local", options="{}", revision=1)


async def names(database: Database) -> set[str]:
    async with database.connect() as reading:
        return set((await reading.scalars(select(connections.c.name))).all())


async def test_the_migrations_lead_to_the_tables(database: Database) -> None:
    def differences(connection: Connection) -> Any:
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    async with database.connect() as reading:
        assert await reading.run_sync(differences) == []


async def test_migrating_again_changes_nothing(database: Database, url: str) -> None:
    await add_connection(database, "kept")
    migrate(url)
    assert await names(database) == {"kept"}
    await database.state()


def test_a_new_file_is_private(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "100% ours" / "portico.db"
    file.parent.mkdir()
    migrate(f"sqlite:///{file}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_many_processes_migrate_at_once(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path / 'portico.db'}"
    code = "import sys; from portico.store.schema import migrate; sys.stdin.read(); migrate(sys.argv[1])"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin
        process.stdin.close()
    for process in processes:
        assert process.stderr
        with process.stderr:
            assert process.stderr.read() == b""
        assert process.wait() == 0


def test_the_newest_revision_is_the_one_that_alembic_leads_to() -> None:
    scripts = ScriptDirectory(str(pathlib.Path(schema.__file__).parent / "migrations"))
    assert newest_revision() == scripts.get_current_head()


EMPTIED = {
    "missing": "",
    "of 0 bytes": "",
    "without tables": "CREATE TABLE other (id INTEGER)",
    "without revisions": "CREATE TABLE users (id INTEGER); CREATE TABLE connections (id INTEGER)",
    "without users": f"""CREATE TABLE connections (id INTEGER); CREATE TABLE alembic_version (version_num TEXT);
                         INSERT INTO alembic_version VALUES ('{newest_revision()}')""",
}


@pytest.mark.parametrize("how", EMPTIED)
async def test_an_emptied_database_of_a_gateway_that_was_set_up_is_refused(tmp_path: pathlib.Path, how: str) -> None:
    file, mark = tmp_path / "portico.db", tmp_path / ".set-up"
    mark.touch()
    if how != "missing":
        file.touch()
        with sqlite3.connect(file) as connection:
            connection.executescript(EMPTIED[how])
        connection.close()
    url = f"sqlite:///{file}"
    database = Database(url)
    assert not await is_current(database)
    await database.close()
    with pytest.raises(NotPossible) as refusal:
        migrate(url, set_up_mark=mark)
    for words in (str(file), "restore it from a backup", f"remove {mark}"):
        assert words in refusal.value.detail
    assert file.exists() is (how != "missing")
    if how == "without users":
        with pytest.raises(NotPossible, match="has lost its tables"):
            migrate(url)
    elif how != "without revisions":
        mark.unlink()
        migrate(url, set_up_mark=mark)


def test_a_file_out_of_reach_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Unavailable, match="can't be opened"):
        migrate(f"sqlite:///{tmp_path / 'missing' / 'portico.db'}")


async def _add_and_fail(database: Database) -> None:
    async with database.begin() as transaction:
        await transaction.execute(_added("a"))
        raise RuntimeError


async def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError):
        await _add_and_fail(database)
    assert await names(database) == set()


async def test_a_statement_with_many_rows_is_all_or_nothing(database: Database) -> None:
    rows = [{"name": name, "kind": "local", "options": "{}", "revision": 1} for name in "aba"]
    with pytest.raises(IntegrityError):
        await database.execute(insert(connections), rows)
    assert await names(database) == set()
    await database.execute(insert(connections), rows[:2])
    assert await names(database) == {"a", "b"}


async def test_constraints_hold(database: Database) -> None:
    with pytest.raises(IntegrityError) as failure:
        async with database.begin() as transaction:
            await transaction.execute(
                insert(mounts).values(user_id=99, path="/", connection="nowhere", folder="/canary", rights="")
            )
    assert "canary" not in str(failure.value)


async def test_writers_queue(database: Database, url: str) -> None:
    other = Database(url)

    async def increment(database: Database) -> None:
        async with database.begin() as transaction:
            query = select(connections.c.revision).with_for_update()
            value = (await transaction.execute(query)).scalar_one()
            await asyncio.sleep(0)
            await transaction.execute(connections.update().values(revision=value + 1))

    await add_connection(database, "counter")
    await asyncio.gather(*(increment(each) for each in (database, other) * 20))
    async with database.connect() as reading:
        assert (await reading.execute(select(connections.c.revision))).scalar_one() == 41
    await other.close()


class TestSqlite:
    @pytest.fixture
    def file(self, migrated_file: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
        return pathlib.Path(shutil.copy(migrated_file, tmp_path / "portico.db"))

    async def test_a_locked_database_can_be_read_but_is_unavailable_to_writers(self, file: pathlib.Path) -> None:
        database = Database(f"sqlite:///{file}", wait=0.1)
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable) as failure:
            await add_connection(database, "late")
        assert failure.value.retry_after == 1
        assert "locked" in (failure.value.cause or "")
        await database.state()
        holder.execute("ROLLBACK")
        holder.close()
        await add_connection(database, "in time")
        assert await names(database) == {"in time"}
        await database.close()

    async def test_a_database_for_a_command_behaves_as_that_of_the_gateway(self, file: pathlib.Path) -> None:
        database = Database(f"sqlite:///{file}", wait=0.1, blocking=True)
        assert await is_current(database)
        await add_connection(database, "kept")
        with pytest.raises(IntegrityError):
            await add_connection(database, "kept")
        with pytest.raises(RuntimeError):
            await _add_and_fail(database)
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable):
            await add_connection(database, "late")
        holder.close()
        assert await names(database) == {"kept"}
        async with database.connect() as connection:
            for pragma, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("synchronous", 2)):
                assert (await connection.exec_driver_sql(f"PRAGMA {pragma}")).scalar_one() == value
        await database.close()

    async def test_a_line_of_writers_behind_a_lock_ends(self, file: pathlib.Path) -> None:
        database = Database(f"sqlite:///{file}", wait=0.1)
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        outcomes = await asyncio.gather(*(add_connection(database, f"n{n}") for n in range(30)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        holder.close()
        await add_connection(database, "after")
        await database.close()

    async def test_a_cancelled_writer_in_the_line_leaves_it(self, file: pathlib.Path) -> None:
        database = Database(f"sqlite:///{file}")
        async with database.begin():
            waiting = asyncio.create_task(add_connection(database, "waiting"))
            while not database.queued:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await add_connection(database, "next")
        assert await names(database) == {"next"}
        await database.close()

    async def test_a_cancelled_writer_behind_a_lock_leaves_no_lock_of_its_own(self, file: pathlib.Path) -> None:
        database = Database(f"sqlite:///{file}", wait=2)
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(add_connection(database, "waiting"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.sleep(0)
        holder.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with sqlite3.connect(file, timeout=0, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
        other.close()
        assert await names(database) <= {"waiting"}, "a statement that has begun may still be carried out"
        await database.close()

    async def test_a_database_that_is_none_is_unavailable(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "portico.db").write_bytes(b"this is not a database " * 100)
        (tmp_path / "empty.db").touch()
        for name in ("portico.db", "empty.db", "missing/portico.db"):
            database = Database(f"sqlite:///{tmp_path / name}")
            with pytest.raises(Unavailable):
                await database.state()
            await database.close()

    async def test_every_connection_is_durable_and_checks_keys(self, file: pathlib.Path) -> None:
        database = Database(f"sqlite:///{file}")
        async with database.connect() as one, database.connect() as two:
            for connection in (one, two):
                for pragma, value in (("journal_mode", "wal"), ("foreign_keys", 1), ("synchronous", 2),
                                      ("busy_timeout", 5000)):  # fmt: skip
                    assert (await connection.exec_driver_sql(f"PRAGMA {pragma}")).scalar_one() == value
        await database.close()


@pytest.mark.parametrize("url", ["", "mysql://host/db", "sqlite+pysqlite:///x", "garbage"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="must begin with"):
        Database(url)


def test_postgresql_understands_every_statement() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
    for query in (SESSION, _USERS, _REFRESHABLE, _BY_TICKET):
        assert "SELECT" in str(query.compile(dialect=dialect))
    assert "FOR SHARE" in str(select(users).with_for_update(read=True).compile(dialect=dialect))
    statement = upsert("postgresql", attempts, {"failures": attempts.c.failures + 1})
    compiled = str(statement.compile(dialect=dialect))
    # Without its table the column would be ambiguous: PostgreSQL sees the new row too.
    assert "ON CONFLICT (digest) DO UPDATE SET failures = (attempts.failures + " in compiled


async def test_a_database_that_is_gone_is_not_used_on(tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path / 'gone.db'}"
    migrate(url)
    database = Database(url)
    try:
        await database.state()
        (tmp_path / "gone.db").rename(tmp_path / "away.db")
        with pytest.raises(Unavailable):
            await database.state()
        (tmp_path / "away.db").rename(tmp_path / "gone.db")
        await database.state()
    finally:
        await database.close()


async def test_a_database_that_was_replaced_is_opened_anew(tmp_path: pathlib.Path) -> None:
    urls = [f"sqlite:///{tmp_path / name}" for name in ("one.db", "two.db")]
    for url in urls:
        migrate(url)
    other = Database(urls[1])
    async with other.begin() as transaction:
        await transaction.execute(text("CREATE TABLE proof (id INTEGER)"))
    await other.close()
    database = Database(urls[0])
    try:
        await database.state()
        for leftover in tmp_path.glob("one.db-*"):
            leftover.unlink()
        (tmp_path / "two.db").replace(tmp_path / "one.db")
        async with database.connect() as connection:
            await connection.execute(text("SELECT id FROM proof"))
    finally:
        await database.close()


async def test_a_database_out_of_reach_is_named_without_its_credentials() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    database = Database(f"postgresql://canary-user:canary-word@127.0.0.1:{port}/portico?user=canary-query")
    try:
        with pytest.raises(Unavailable) as failure:
            await database.state()
    finally:
        await database.close()
    cause = failure.value.cause or ""
    assert cause.startswith(f"the database postgresql://127.0.0.1:{port}/portico can't be used; check ")
    assert "Connection refused" in cause
    assert "canary" not in cause + failure.value.detail


async def test_a_database_file_out_of_reach_is_named(tmp_path: pathlib.Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'gone.db'}")
    with pytest.raises(Unavailable) as failure:
        await database.state()
    await database.close()
    assert f"the database {tmp_path / 'gone.db'} can't be used" in (failure.value.cause or "")


async def test_connections_in_use_are_counted(database: Database) -> None:
    async with database.connect(), database.connect():
        in_use, most = database.connections
        assert in_use == 2 <= most
    assert database.connections == (0, most)


async def test_the_time_of_a_backup_is_not_something_to_agree_on(database: Database) -> None:
    cluster = Cluster(database)
    assert await cluster.last_backup() == 0
    for at in (1, 2):
        await cluster.note_backup(at)
    assert await cluster.last_backup() == 2
    assert await cluster.identity() == {}
