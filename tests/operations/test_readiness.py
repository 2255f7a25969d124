import asyncio
import os
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import insert, text, update

from portico.accounts.connections import Connections
from portico.accounts.users import Users
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.model.errors import Unavailable
from portico.observability.audit import AuditLog
from portico.observability.metrics import Metrics, render
from portico.operations import readiness as module
from portico.operations.readiness import NotReady, Readiness
from portico.store.cluster import KEY
from portico.store.database import Database, DatabaseState
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.tables import cluster

from ..fixtures import Clock

KEY_HERE = "f1"


@pytest.fixture
async def pool(connections: Connections, database: Database, tmp_path: pathlib.Path) -> AsyncIterator[ConnectionPool]:
    await connections.change("local", options={"folder": str(tmp_path)}, secrets={})
    pool = ConnectionPool(connections, CursorSeal(b"k" * 32), Metrics(), Leases(database, "node"))
    yield pool
    await pool.close()


@pytest.fixture
def readiness(database: Database, pool: ConnectionPool, clock: Clock) -> Readiness:
    return Readiness(database, pool, KEY_HERE)


async def faults(readiness: Readiness) -> dict[str, str]:
    try:
        await readiness.check()
    except NotReady as error:
        return {fault.check: fault.detail for fault in error.faults}
    return {}


async def test_a_node_is_ready_with_its_own_key_and_not_with_another(
    readiness: Readiness, database: Database, clock: Clock
) -> None:
    assert await faults(readiness) == {}
    await database.execute(insert(cluster).values(name=KEY, value=KEY_HERE))
    clock.advance(1)
    assert await faults(readiness) == {}
    assert readiness.is_ready
    await database.execute(update(cluster).values(value="f2"))
    clock.advance(1)
    assert list(await faults(readiness)) == ["key"]
    assert not readiness.is_ready


async def test_an_answer_is_shared_for_a_second(
    readiness: Readiness, database: Database, clock: Clock, queries: list[None]
) -> None:
    assert await asyncio.gather(*(faults(readiness) for _ in range(10))) == [{}] * 10
    asked = len(queries)
    clock.advance(0.9)
    assert await faults(readiness) == {}
    assert len(queries) == asked
    clock.advance(0.2)
    await faults(readiness)
    assert len(queries) > asked


async def test_while_a_folder_hangs_the_answer_is_the_one_before(
    readiness: Readiness, pool: ConnectionPool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def check() -> None:
        asked.set()
        await answered.wait()
        asked.clear()
        answered.clear()

    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0)
    monkeypatch.setattr(pool, "check", check)
    for before in ({"storage": "The storage hasn't responded yet."}, {}):
        watching = asyncio.create_task(readiness.watch())
        await asked.wait()
        clock.advance(1)
        assert await faults(readiness) == before
        answered.set()
        await watching


async def test_while_the_database_hangs_it_is_not_ready(
    readiness: Readiness, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()
    state = database.state

    async def late(*arguments: Any, **options: Any) -> DatabaseState:
        await answered.wait()
        return await state(*arguments, **options)

    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0)
    monkeypatch.setattr(database, "state", late)
    assert [await faults(readiness) for _ in range(3)] == [
        {"database": "The database doesn't respond; the log says why."}
    ] * 3
    answered.set()
    await readiness.watch()
    assert await faults(readiness) == {}


async def test_an_older_schema_is_not_ready_and_a_newer_one_is(
    readiness: Readiness, database: Database, clock: Clock
) -> None:
    await database.execute(text("UPDATE alembic_version SET version_num = '0002'"))
    assert list(await faults(readiness)) == ["schema"]
    await database.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    clock.advance(1)
    assert await faults(readiness) == {}


async def test_a_database_without_its_tables_is_not_ready(readiness: Readiness, database: Database) -> None:
    await database.execute(text("DROP TABLE alembic_version"))
    assert list(await faults(readiness)) in (["schema"], ["database"])


async def test_a_database_that_can_only_be_read_is_not_ready(
    readiness: Readiness, database: Database, clock: Clock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.dialect == "sqlite":
        access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and access(path, mode))
    else:
        name = url.rpartition("/")[2]
        await database.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
        await database.close()  # for new connections only
    assert (await faults(readiness))["read-only"].startswith("The database is read-only")


async def test_a_database_that_accepts_no_writes_is_not_ready(
    database: Database, pool: ConnectionPool, clock: Clock, url: str
) -> None:
    """It is tried only after a write has failed."""
    impatient = Database(url, wait=0.2)
    readiness = Readiness(impatient, pool, KEY_HERE)
    try:
        async with database.begin() as transaction:
            if database.dialect == "postgresql":
                await transaction.execute(text("LOCK TABLE cluster IN EXCLUSIVE MODE"))
            assert await faults(readiness) == {}
            with pytest.raises(Unavailable):
                await impatient.execute(update(cluster).values(value="f2"))
            clock.advance(1)
            await readiness.watch()
            assert await faults(readiness) == {"writes": "The database refuses writes; the log says why."}
        clock.advance(1)
        assert await faults(readiness) == {}
    finally:
        await readiness.close()
        await impatient.close()


async def test_a_required_audit_log_that_cannot_be_written_is_not_ready(
    database: Database, pool: ConnectionPool, clock: Clock, tmp_path: pathlib.Path
) -> None:
    journal = Journal(database, AuditLog(str(tmp_path / "audit"), required=True), node="one", is_required=True)
    readiness = Readiness(database, pool, KEY_HERE, journal)
    assert await faults(readiness) == {}
    (tmp_path / "audit").unlink()
    (tmp_path / "audit").mkdir()
    clock.advance(1)
    assert list(await faults(readiness)) == ["audit"]
    await journal.close()


async def test_a_clock_that_differs_is_not_ready(
    readiness: Readiness, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = [5000, -5000, 5001, -7_200_000]

    async def time() -> int:
        return clock.moment + offsets.pop(0)

    monkeypatch.setattr(database._backend, "time", time)
    for ready in (True, True, False):
        await readiness.watch()
        assert (await faults(readiness) == {}) == ready
    await readiness.watch()
    assert await faults(readiness) == {
        "clock": "This machine's clock differs by 7200 s from the database's; synchronize it with NTP."
    }


async def test_a_draining_node_is_not_ready_at_once(readiness: Readiness) -> None:
    assert await faults(readiness) == {}
    readiness.drain()
    assert list(await faults(readiness)) == ["draining"]
    assert not readiness.is_ready


async def test_one_folder_that_is_missing_takes_nobody_else_down(
    readiness: Readiness, connections: Connections, users: Users, clock: Clock
) -> None:
    await connections.add("lost", "local", {"folder": "/missing"}, {})
    await users.add("ann", "correct horse", connection="lost")
    assert await faults(readiness) == {"storage": "The folder of the connection 'lost' is missing."}
    await users.add("bob", "correct horse", connection="local")
    clock.advance(1)
    assert await faults(readiness) == {}


@pytest.mark.parametrize("look_up", ["in_use", "get"])
async def test_a_database_that_goes_down_meanwhile_is_no_fault_of_the_storage(
    readiness: Readiness, connections: Connections, users: Users, monkeypatch: pytest.MonkeyPatch, look_up: str
) -> None:
    await users.add("ann", "correct horse", connection="local")

    async def down(*_: object) -> None:
        raise Unavailable("The database is down.")

    monkeypatch.setattr(connections, look_up, down)
    assert list(await faults(readiness)) == ["database"]


async def test_a_database_that_hangs_meanwhile_is_no_fault_of_the_storage(
    readiness: Readiness, connections: Connections, database: Database, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    await users.add("ann", "correct horse", connection="local")
    monkeypatch.setattr("portico.drive.connection_pool.CHECK_TIMEOUT_SECONDS", 0.01)

    async def down(*_: object, **__: object) -> None:
        raise Unavailable("The database is down.")

    async def hang(_: str) -> None:
        monkeypatch.setattr(database, "state", down)
        await asyncio.Event().wait()

    monkeypatch.setattr(connections, "get", hang)
    assert list(await faults(readiness)) == ["database"]


def test_gauges_of_workers_are_merged_by_their_meaning() -> None:
    workers = []
    for ready, offset in ((1, -2.0), (0, 1.0)):
        metrics = Metrics()
        metrics.watch("portico_node_info", lambda: 1, "one", "1.0")
        metrics.watch("portico_ready", lambda ready=ready: ready)  # type: ignore[misc]
        metrics.watch("portico_clock_offset_seconds", lambda offset=offset: offset)  # type: ignore[misc]
        workers.append(metrics.snapshot(0))
    lines = render(workers).splitlines()
    assert 'portico_node_info{node="one",version="1.0"} 1' in lines
    assert "portico_ready 0" in lines
    assert "portico_clock_offset_seconds -2" in lines
    assert "portico_workers 2" in lines
