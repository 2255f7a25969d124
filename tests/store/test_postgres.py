"""What only PostgreSQL can do to us."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from portico.accounts.connections import Connections
from portico.accounts.vault import SecretKey, Vault
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.model.errors import InvalidRequest, Misconfigured, Unavailable, for_administrator
from portico.model.paths import Path, Place
from portico.observability.audit import AuditLine
from portico.observability.metrics import Metrics
from portico.operations import readiness
from portico.operations.readiness import NotReady, Readiness
from portico.store.database import Database
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.postgres import parse_url
from portico.store.schema import is_current, migrate
from portico.store.tables import access_tokens, connections, trash, users
from portico.store.tables import journal as journal_table
from portico.store.trash import Trashed

from ..servers.postgres import PostgresServer, running_postgres


@pytest.fixture
def url(postgres: PostgresServer, migrated_template: str) -> str:
    return postgres.new_database(migrated_template)


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that tests may stop."""
    with running_postgres() as server:
        yield server


@pytest.fixture
async def fragile(own_server: PostgresServer) -> AsyncIterator[Database]:
    database = Database(own_server.url(), wait=60)
    await database.fetch(text("SELECT 1"))
    yield database
    await database.close()


def added(name: str) -> Any:
    return insert(connections).values(name=name, kind="local", options="{}", revision=1)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u@h/n",
        "postgresql://u:p@h:1,i:2/n?target_session_attrs=read-write",
        "postgresql:///n?host=/run/postgresql&sslmode=verify-full&sslrootcert=/ca.pem&application_name=x",
        "postgresql+asyncpg://u@h/n",
        "postgresql+psycopg://u@h/n",
        "postgresql://u:p?w@h/n",
        "postgresql://h/n?user=u@server",
    ],
)
def test_urls_are_those_of_libpq(url: str) -> None:
    assert parse_url(url)["dbname"] == "n"
    Database(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://u:canary@h/n?sslmod=require", "the option sslmod doesn't exist"),
        ("postgresql://u:canary@[::1/n", "IPv6"),
        ("postgresql://u:canary%zz@h/n", "as %25"),
        ("postgresql://u:p@canary@h/n", "percent-encode '@' as %40"),
        ("postgresql://u:p/canary@h/n", "'/' as %2F"),
        ("postgresql://u:p/w?canary=1@h/n", "'/' as %2F"),
        ("postgresql://u:p canary@h/n", " as %2"),
        ("postgresql://u:canary@h:99999/n", "the port must be"),
        ("postgresql://u:canary@h:1,i:x/n", "the port must be"),
        ("postgresql://u:canary@h/n?sslmode=bogus", "sslmode must be one of disable, "),
        ("postgresql://u:canary@h/n?connect_timeout=soon", "connect_timeout must be"),
    ],
)
def test_what_is_wrong_with_a_url_is_one_sentence_that_names_the_setting(url: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^The URL in database\.url is not valid: ") as error:
        Database(url)
    assert why in error.value.detail
    assert "\n" not in error.value.detail
    assert "canary" not in error.value.detail


@pytest.mark.parametrize(
    ("old", "new", "kind", "expected"),
    [
        ("p%40ss", "canary", Misconfigured, "{} refuses the user or password in database.url"),
        ("/postgres", "/none", Misconfigured, "the database {} in database.url does not exist; create it"),
        ("127.0.0.1", "none.invalid", Unavailable, "the host in database.url can't be resolved: {}"),
    ],
)
async def test_a_mistake_in_the_url_is_named(
    postgres: PostgresServer, old: str, new: str, kind: type[Unavailable], expected: str
) -> None:
    database = Database(postgres.url().replace(old, new))
    with pytest.raises(Unavailable) as error:
        await database.state()
    await database.close()
    assert isinstance(error.value, Misconfigured) == (kind is Misconfigured)
    assert (error.value.cause or "").startswith(expected.format(database.name))


async def test_the_message_of_the_driver_is_whole(postgres: PostgresServer) -> None:
    database = Database("postgresql://u:canary@127.0.0.1:1/n")
    with pytest.raises(Unavailable) as error:
        await database.state()
    assert for_administrator(error.value).endswith("Connection refused).")
    assert "canary" not in for_administrator(error.value)


@pytest.fixture
async def reader(url: str, postgres: PostgresServer) -> AsyncIterator[Database]:
    """With a role that may only read."""
    name = url.rpartition("/")[2]
    role = f"reader_{name}"
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret'", name)
    postgres.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", name)
    database = Database(f"postgresql://{role}:secret@127.0.0.1:{postgres.port}/{name}")
    yield database
    await database.close()
    postgres.execute(f"DROP OWNED BY {role}", name)
    postgres.execute(f"DROP ROLE {role}", name)


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[ConnectionPool]:
    stored = Connections(database, Vault(SecretKey.generate()))
    pool = ConnectionPool(stored, CursorSeal(b"k" * 32), Metrics(), Leases(database, "node"))
    yield pool
    await pool.close()


async def faults(database: Database, pool: ConnectionPool) -> dict[str, str | None]:
    try:
        await Readiness(database, pool, None).check()
    except NotReady as error:
        return {fault.check: fault.cause for fault in error.faults}
    return {}


async def test_a_role_that_may_not_write_is_unavailable_and_not_ready(
    reader: Database, database: Database, pool: ConnectionPool, postgres: PostgresServer, url: str
) -> None:
    with pytest.raises(Misconfigured) as error:
        await reader.execute(added("c"))
    assert error.value.retry_after
    assert error.value.cause == (
        "the role in database.url can't do this (permission denied for table connections): "
        "make it the owner of the database and its tables"
    )
    assert await is_current(reader)
    assert await faults(database, pool) == {}
    assert "INSERT on users" in ((await faults(reader, pool))["privileges"] or "")
    name = url.rpartition("/")[2]
    postgres.execute(f"REVOKE ALL ON cluster FROM reader_{name}", name)
    assert "permission denied for table cluster" in ((await faults(reader, pool))["privileges"] or "")
    with pytest.raises(Misconfigured):
        await is_current(reader)


async def test_a_table_that_is_missing_is_unavailable_and_not_ready(database: Database, pool: ConnectionPool) -> None:
    await database.execute(text("ALTER TABLE access_tokens RENAME TO lost"))
    with pytest.raises(Misconfigured) as error:
        await database.fetch(select(access_tokens))
    assert 'lacks a table or column of Portico (relation "access_tokens" does not exist)' in (error.value.cause or "")
    assert "SELECT" not in (error.value.cause or "")
    assert await faults(database, pool) == {"schema": "missing: access_tokens"}
    await database.execute(text("ALTER TABLE users DROP COLUMN reach"))
    with pytest.raises(Misconfigured, match="doesn't respond"):
        await database.fetch(select(users))


async def test_readiness_does_not_wait_as_long_as_requests(
    own_server: PostgresServer, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on a connection that is open nor on a new one."""
    monkeypatch.setattr(readiness, "_WAIT_SECONDS", 0.5)
    connected = Database(own_server.url(), wait=3600)
    await connected.fetch(text("SELECT 1"))
    own_server.freeze()
    try:
        for database in (connected, Database(own_server.url(), wait=3600)):
            assert list(await faults(database, pool)) == ["database"]
    finally:
        own_server.thaw()
    await connected.close()


@pytest.mark.parametrize("silent", [False, True])
async def test_of_several_hosts_one_that_answers_is_used(url: str, postgres: PostgresServer, silent: bool) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        other = listener.getsockname()[1]
        if not silent:
            listener.close()
        database = Database(url.replace("@127.0.0.1:", f"@127.0.0.1:{other},127.0.0.1:"))
        assert database.name.startswith(f"postgresql://127.0.0.1:{other},127.0.0.1:{postgres.port}/")
        await database.state()
        await database.close()


async def test_a_restart_breaks_no_request(fragile: Database, own_server: PostgresServer) -> None:
    await asyncio.gather(*(fragile.fetch(text("SELECT pg_sleep(0.05)")) for _ in range(5)))
    own_server.stop()
    own_server.start()
    await asyncio.gather(*(fragile.fetch(text("SELECT 1")) for _ in range(20)))
    assert await fragile.execute(text("CREATE TABLE IF NOT EXISTS after_restart (id int)")) is not None


async def test_what_was_answered_survives_a_crash_of_the_server(own_server: PostgresServer) -> None:
    own_server.execute("ALTER SYSTEM SET wal_writer_delay TO '10s'")  # nothing else writes the log
    own_server.execute("SELECT pg_reload_conf()")
    url = own_server.new_database()
    migrate(url)
    database = Database(url)
    await database.execute(added("c"))
    journal = Journal(database, node="one")
    recording = journal.recording(AuditLine(action="delete"))
    recording.concern(Place("c", Path.parse("/f")))
    await recording.begin()
    recording.kept.append(Trashed(recording.new_trash_id(), "c", "/f", False, 1, "deleted", "kept", "ann", 1, 2))
    await recording.settle("done")
    own_server.stop(signal.SIGQUIT)
    own_server.start()
    for table in (journal_table, trash):
        assert len(await database.fetch(select(table))) == 1
    await journal.close()
    await database.close()


async def test_a_read_whose_connection_breaks_is_tried_again(fragile: Database, own_server: PostgresServer) -> None:
    reading = asyncio.create_task(fragile.fetch(text("SELECT pg_sleep(0.5), 7 AS answer")))
    await _under_way(own_server, "pg_sleep(0.5)")
    own_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(0.5)%' AND pid <> pg_backend_pid()"
    )
    assert (await reading)[0].answer == 7


async def test_a_server_that_hangs_is_unavailable_and_used_again(own_server: PostgresServer) -> None:
    database = Database(own_server.url(), wait=2)
    await database.fetch(text("SELECT 1"))
    own_server.freeze()
    try:
        outcomes = await asyncio.gather(*(database.fetch(text("SELECT 1")) for _ in range(12)), return_exceptions=True)
    finally:
        own_server.thaw()
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    answer = None
    async with asyncio.timeout(60):
        while answer is None:  # two seconds can be too few on a busy machine
            with suppress(Unavailable):
                answer = (await database.fetch(text("SELECT 1 AS one")))[0].one
    assert answer == 1
    await database.close()


async def test_requests_queue_for_the_pool(url: str, postgres: PostgresServer) -> None:
    database = Database(url, connections=2)
    name = url.rpartition("/")[2]
    counted = f"SELECT count(*) AS n, pg_sleep(0.01) FROM pg_stat_activity WHERE datname = '{name}'"
    rows = await asyncio.gather(*(database.fetch(text(counted)) for _ in range(30)))
    assert max(row.n for [row] in rows) <= 2
    await database.close()


async def test_a_connection_outlives_a_task_that_is_cancelled_before_its_query(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(url, connections=1)
    await database.fetch(text("SELECT 1"))
    begun = asyncio.Event()

    async def set_autocommit(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.AsyncConnection, "set_autocommit", set_autocommit)
        task = asyncio.create_task(database.fetch(text("SELECT 1")))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
    assert (await database.fetch(text("SELECT 1 AS one")))[0].one == 1
    await database.close()


async def test_at_the_servers_limit_requests_wait(postgres: PostgresServer, url: str) -> None:
    postgres.execute("CREATE ROLE limited LOGIN PASSWORD 'x' CONNECTION LIMIT 1")
    limited = f"postgresql://limited:x@127.0.0.1:{postgres.port}/{url.rpartition('/')[2]}"
    database = Database(limited, connections=2)
    async with await psycopg.AsyncConnection.connect(limited):
        waiting = asyncio.create_task(database.fetch(text("SELECT 1 AS one")))
        await asyncio.sleep(0.2)
        assert not waiting.done()
    assert (await waiting)[0].one == 1
    await database.close()
    postgres.execute("DROP ROLE limited")


async def test_deadlocks_are_tried_again(database: Database) -> None:
    for name in ("a", "b"):
        await database.execute(added(name))
    both_began = asyncio.Barrier(2)
    tries = 0

    async def swap(first: str, second: str) -> None:
        waited = False

        async def work(transaction: AsyncConnection) -> None:
            nonlocal tries, waited
            tries += 1
            for name in (first, second):
                statement = update(connections).values(revision=connections.c.revision + 1)
                await transaction.execute(statement.where(connections.c.name == name))
                if not waited:
                    waited = True
                    await both_began.wait()

        await database.transact(work)

    await asyncio.gather(swap("a", "b"), swap("b", "a"))
    assert tries > 2
    assert {row.revision for row in await database.fetch(select(connections.c.revision))} == {3}


async def test_the_databases_clock_is_learned_and_a_step_of_our_own_does_not_matter(
    database: Database, clock: Any
) -> None:
    clock.set(-7200)
    await database.learn_clock()
    assert abs(database.clock_offset - 7_200_000) < 60_000
    before = database.now()
    clock.set(7200)  # corrected
    assert database.now() == before
    assert abs(database.clock_offset) < 60_000
    clock.advance(3)
    assert database.now() == before + 3000


async def test_a_query_that_takes_too_long_is_not_tried_again(url: str) -> None:
    database = Database(url, wait=2)
    await database.fetch(text("SELECT 1"))
    tries = 0

    async def work(transaction: AsyncConnection) -> None:
        nonlocal tries
        tries += 1
        await transaction.execute(text("SELECT pg_sleep(60)"))

    with pytest.raises(Unavailable) as error:
        await database.transact(work)
    assert tries == 1
    assert "no answer within 2 s" in (error.value.cause or "")
    await database.close()


async def test_errors_of_a_batch_are_those_of_its_statements(database: Database) -> None:
    async def twice(transaction: AsyncConnection) -> None:
        async with database.batch(transaction):
            for _ in range(2):
                await transaction.execute(added("same"))

    with pytest.raises(IntegrityError):
        await database.transact(twice)
    assert await database.fetch(select(connections)) == []


async def _under_way(server: PostgresServer, query: str) -> None:
    while True:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()",
                (f"%{query}%",),
            ).fetchone()
        if found:
            return
        await asyncio.sleep(0.01)


async def test_nothing_is_kept_in_a_connection_that_pgbouncer_would_lose(url: str) -> None:
    database = Database(url, connections=1)
    for number in range(10):  # psycopg prepares what it has seen five times, unless it is kept from it
        await database.execute(added(f"c{number}"))
        await database.fetch(select(connections).where(connections.c.name == "c1"))
    assert await database.fetch(text("SELECT name FROM pg_prepared_statements")) == []
    await database.close()
