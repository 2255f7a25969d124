"""Jobs in the database: progress, cancellation from elsewhere, and processes that died. On both databases."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import select, update

from portico.accounts.users import Users
from portico.model.errors import Unavailable
from portico.runtime import processes
from portico.runtime.processes import ProcessState
from portico.runtime.progress_counter import ProgressCounter
from portico.store.database import Database
from portico.store.jobs import CANCELLED, DONE, INTERRUPTED, KEPT, LIFETIME, RUNNING, JobRecord, JobRecords, OwnedJob
from portico.store.tables import jobs
from portico.store.users import User

from ..fixtures import Clock

OFTEN = timedelta(milliseconds=20)


@pytest.fixture
def node(database: Database) -> JobRecords:
    return JobRecords(database, "one", renewal=OFTEN)


@pytest.fixture
def other_node(database: Database) -> JobRecords:
    return JobRecords(database, "two", renewal=OFTEN)


@pytest.fixture
def record(alice: User, database: Database) -> JobRecord:
    now = database.now()
    return JobRecord("a" * 32, alice.id, str(alice.id), "copy", "/a", "/b", "id", now)


async def test_progress_and_outcome_are_seen_by_others(
    node: JobRecords, other_node: JobRecords, record: JobRecord
) -> None:
    counter = ProgressCounter()
    job = await node.add(record, counter, lambda: None, most=10)
    assert job
    assert await other_node.get(record.namespace, record.id) == record
    assert await other_node.get(f"{record.user_id}/key", record.id) is None, "of another actor"
    counter.entries, counter.size, counter.total = 7, 2**40, 9
    async with asyncio.timeout(30):
        while not (seen := await other_node.get(record.namespace, record.id)) or not seen.entries:
            await asyncio.sleep(0.01)
    assert (seen.entries, seen.size, seen.total) == (7, 2**40, 9)
    assert await other_node.running_by(record.namespace) == 1
    assert not await other_node.forget(record.id)
    counter.entries = 9
    await node.end(job, DONE, '{"result":"/b"}')
    (seen,) = await other_node.list(record.namespace, 10)
    assert (seen.state, seen.entries, seen.outcome) == (DONE, 9, '{"result":"/b"}')
    assert seen.ended_at
    assert await other_node.running_by(record.namespace) == 0
    assert await other_node.forget(record.id)
    assert await node.list(record.namespace, 10) == []


@pytest.mark.parametrize("why", ["wanted", "disabled", "expired", "deleted"])
async def test_a_job_is_cancelled_from_elsewhere(
    node: JobRecords, other_node: JobRecords, record: JobRecord, users: Users, why: str
) -> None:
    cancelled = asyncio.Event()
    job = await node.add(record, ProgressCounter(), cancelled.set, most=10)
    assert job
    match why:
        case "wanted":
            await other_node.want_cancel(record.id)
        case "disabled":
            await users.change("alice", disabled=True)
        case "expired":
            await users.change("alice", expires_at=datetime(2001, 1, 1, tzinfo=UTC))
        case "deleted":
            await users.delete("alice")
    async with asyncio.timeout(30):
        await cancelled.wait()
    await node.end(job, CANCELLED)
    seen = await other_node.get(record.namespace, record.id)
    assert (seen and seen.state) == (None if why == "deleted" else CANCELLED)


@pytest.mark.parametrize("silent", [False, True], ids=["ended", "silent"])
async def test_a_dead_process_leaves_an_interrupted_job(
    node: JobRecords,
    other_node: JobRecords,
    record: JobRecord,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    silent: bool,
) -> None:
    cancelled = asyncio.Event()
    job = await node.add(record, ProgressCounter(), cancelled.set, most=10)
    assert job
    await job.let_go()
    if silent:
        await database.execute(update(jobs).values(owned_until=database.now()))
    else:
        monkeypatch.setattr(processes, "state_of", lambda _: ProcessState.ENDED)
    mine = await node.get(record.namespace, record.id)
    assert mine
    assert mine.state == RUNNING, "a process does not give itself up"
    seen = await other_node.get(record.namespace, record.id)
    assert seen
    assert seen.state == INTERRUPTED
    assert seen.ended_at
    await node.renew([job])  # it was only asleep
    assert cancelled.is_set()
    await node.end(job, DONE)
    assert await other_node.get(record.namespace, record.id) == seen, "what was said is not taken back"


async def test_an_outcome_that_cannot_be_saved_is_saved_later(
    node: JobRecords, other_node: JobRecords, record: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await node.add(record, ProgressCounter(), lambda: None, most=10)
    assert job
    with monkeypatch.context() as patch:
        patch.setattr(Database, "execute", failing)
        await node.end(job, DONE)
    async with asyncio.timeout(30):
        while (seen := await other_node.get(record.namespace, record.id)) and seen.state == RUNNING:
            await asyncio.sleep(0.01)
    assert seen
    assert seen.state == DONE


async def failing(*_: object, **__: object) -> None:
    raise Unavailable("The database does not answer.")


async def test_the_sweep_forgets_after_a_day(
    clock: Clock, node: JobRecords, other_node: JobRecords, record: JobRecord, database: Database
) -> None:
    ended = await node.add(record, ProgressCounter(), lambda: None, most=10)
    assert ended
    await node.end(ended, DONE)
    lost = replace(record, id="b" * 32)
    job = await node.add(lost, ProgressCounter(), lambda: None, most=10)
    assert job
    await job.let_go()
    clock.advance(LIFETIME.total_seconds() + 1)
    await other_node.sweep()
    assert {row.id: row.state for row in await database.fetch(select(jobs))} == {record.id: DONE, lost.id: INTERRUPTED}
    clock.advance(KEPT.total_seconds() - 1)
    await other_node.sweep()
    assert [row.id for row in await database.fetch(select(jobs))] == [lost.id]


async def test_a_burst_of_jobs_passes_exactly_the_limit(
    node: JobRecords, other_node: JobRecords, record: JobRecord
) -> None:
    async def add(number: int) -> tuple[JobRecords, OwnedJob] | None:
        owner, each = (node, other_node)[number % 2], replace(record, id=f"{number:032x}")
        job = await owner.add(each, ProgressCounter(), lambda: None, most=3)
        return (owner, job) if job else None

    added = [each for each in await asyncio.gather(*map(add, range(16))) if each]
    assert len(added) == await node.running_by(record.namespace) == 3
    for owner, job in added:
        await owner.end(job, DONE)
