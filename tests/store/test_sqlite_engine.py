import asyncio
import pathlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from portico.store.sqlite import SqliteEngine, ThreadCaller


@pytest.fixture
def sync_engine(tmp_path: pathlib.Path) -> Engine:
    arguments = {"isolation_level": None, "check_same_thread": False}
    url = f"sqlite:///{tmp_path / 'a.db'}"
    return create_engine(url, connect_args=arguments, poolclass=QueuePool, pool_size=2, max_overflow=0)


@pytest.fixture
async def engine(sync_engine: Engine) -> AsyncIterator[SqliteEngine]:
    engine = SqliteEngine(sync_engine, ThreadCaller(2), connections=2, wait=60)
    async with engine.connect() as connection, connection.begin():
        await connection.exec_driver_sql("CREATE TABLE a (n INTEGER)")
    yield engine
    await engine.close()


async def count(engine: SqliteEngine) -> Any:
    async with engine.connect() as connection:
        return (await connection.execute(text("SELECT count(*) FROM a"))).scalar_one()


def used(sync_engine: Engine) -> int:
    assert isinstance(sync_engine.pool, QueuePool)
    return sync_engine.pool.checkedout()


async def paused(engine: SqliteEngine, sync_engine: Engine, at: str) -> tuple[asyncio.Task[Any], threading.Event]:
    """A query whose thread waits at an event of SQLAlchemy, and what lets it go on."""
    begun, may_end = threading.Event(), threading.Event()

    def pause(*_: Any) -> None:
        begun.set()
        may_end.wait()

    event.listen(sync_engine, at, pause)
    counting = asyncio.create_task(count(engine))
    await asyncio.to_thread(begun.wait)
    return counting, may_end


async def test_statements_run_in_other_threads(engine: SqliteEngine, sync_engine: Engine) -> None:
    threads = set()
    event.listen(sync_engine, "before_cursor_execute", lambda *_: threads.add(threading.current_thread()))
    assert await count(engine) == 0
    assert threads
    assert threading.main_thread() not in threads


async def test_a_single_statement_is_a_transaction(engine: SqliteEngine, sync_engine: Engine) -> None:
    result = await engine.run(text("INSERT INTO a VALUES (1), (2)"), None)
    assert result.rowcount == 2
    assert (await engine.run(text("SELECT n FROM a ORDER BY n"), None)).all() == [(1,), (2,)]
    with pytest.raises(OperationalError):
        await engine.run(text("INSERT INTO missing VALUES (1)"), None)
    assert await count(engine) == 2
    assert used(sync_engine) == 0


async def test_more_work_than_connections(engine: SqliteEngine, sync_engine: Engine) -> None:
    assert await asyncio.gather(*(count(engine) for _ in range(50))) == [0] * 50
    assert used(sync_engine) == 0


async def test_a_failure_rolls_back(engine: SqliteEngine) -> None:
    async def fail() -> None:
        async with engine.connect() as connection, connection.begin():
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
            await connection.execute(text("INSERT INTO a VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await count(engine) == 0


async def test_who_is_cancelled_gives_the_connection_back_when_the_thread_is_done(
    engine: SqliteEngine, sync_engine: Engine
) -> None:
    counting, may_end = await paused(engine, sync_engine, "before_cursor_execute")
    for _ in range(2):
        counting.cancel()
        await asyncio.wait([counting], timeout=0.01)
        assert not counting.done()
        assert used(sync_engine) == 1
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert used(sync_engine) == 0
    assert await count(engine) == 0


async def test_who_is_cancelled_while_connecting_leaves_no_connection(
    engine: SqliteEngine, sync_engine: Engine
) -> None:
    counting, may_end = await paused(engine, sync_engine, "checkout")
    counting.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await counting
    assert used(sync_engine) == 0
    assert await count(engine) == 0


async def test_what_is_not_durable_does_not_wait_for_the_disk(engine: SqliteEngine) -> None:
    full, normal = 2, 1

    async def level(*, durable: bool) -> Any:
        return (await engine.run(text("PRAGMA synchronous"), None, durable=durable)).scalar_one()

    assert [await level(durable=durable) for durable in (True, False, True)] == [full, normal, full]
    with pytest.raises(OperationalError):
        await engine.run(text("INSERT INTO missing VALUES (1)"), None, durable=False)
    assert await asyncio.gather(*(level(durable=True) for _ in range(4))) == [full] * 4


async def test_rows_that_need_not_be_durable(engine: SqliteEngine, sync_engine: Engine) -> None:
    statement = text("INSERT INTO a VALUES (abs(:n))")
    await engine.run(statement, [{"n": 1}, {"n": 2}], durable=False)
    assert await count(engine) == 2
    # Of rows of which one fails, none stays.
    with pytest.raises(SQLAlchemyError):
        await engine.run(statement, [{"n": 3}, {"n": -(2**63)}], durable=False)
    assert await count(engine) == 2
    with sync_engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2


async def test_a_closed_engine_has_no_threads(sync_engine: Engine) -> None:
    await asyncio.to_thread(int)  # the loop's own thread, in which the others are waited for
    before = threading.active_count()
    engine = SqliteEngine(sync_engine, ThreadCaller(2), connections=2, wait=60)
    await asyncio.gather(*(engine.run(text("SELECT 1"), None) for _ in range(4)))
    assert threading.active_count() == before + 2
    await engine.close()
    assert threading.active_count() == before


async def test_closing_does_not_block_the_loop(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    closed_in = []
    close = ThreadCaller.close

    def noted(caller: ThreadCaller) -> None:
        closed_in.append(threading.current_thread())
        close(caller)

    monkeypatch.setattr(ThreadCaller, "close", noted)
    await engine.close()
    assert closed_in
    assert threading.main_thread() not in closed_in
