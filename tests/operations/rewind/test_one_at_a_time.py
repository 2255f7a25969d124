"""A rewind is carried out by one process at a time, and ends when that is wanted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from portico.accounts.share_links import ShareLinks
from portico.drive.connection_pool import ConnectionPool
from portico.model.errors import InvalidRequest, NotFound
from portico.operations.actors.request_context import RequestContext
from portico.operations.rewind import rewinds as module
from portico.operations.rewind.execution import Execution
from portico.operations.rewind.places import Places
from portico.operations.rewind.plan import LeftAlone, Plan
from portico.operations.rewind.rewinds import RewindRequest, Rewinds
from portico.operations.rewind.steps import Step
from portico.store.database import Database
from portico.store.history import ActorFilter
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.trash import TrashRecords

from ...fixtures import Clock

REQUEST = RewindRequest(ActorFilter(user="m"), 0, by="admin")


class Steps:
    """What was carried out, in place of the storage."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.after: dict[str, Any] = {}
        """What happens after a step."""

        async def carry_out(_: object, steps: list[Step], **__: object) -> list[Any]:
            for step in steps:
                self.done.append(step.location[-1])
                if work := self.after.get(step.location[-1]):
                    await work()
            return []

        monkeypatch.setattr(Execution, "carry_out", carry_out)
        monkeypatch.setattr(module, "_AT_MOST", 2)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def opened(database: Database, node: str = "one") -> Rewinds:
    journal, leases = Journal(database, node=node), Leases(database, node)
    pool, links = cast("ConnectionPool", None), cast("ShareLinks", None)
    return Rewinds(database, journal, pool, TrashRecords(database), links, leases)


@pytest.fixture
async def rewinds(database: Database) -> AsyncIterator[Rewinds]:
    rewinds = opened(database)
    yield rewinds
    await rewinds.close()
    await rewinds._journal.close()


async def begun(rewinds: Rewinds) -> str:
    return await rewinds.begin(REQUEST, Plan([Step("remove", ("c", name)) for name in "abcde"], []))


async def run_left(rewinds: Rewinds) -> None:
    """To the end."""
    await rewinds.run_left()
    await asyncio.gather(*rewinds._continued.values())


async def test_all_steps_are_carried_out_once(rewinds: Rewinds, steps: Steps) -> None:
    rewind_id, told = await begun(rewinds), []
    assert await rewinds.run(rewind_id, lambda done, of: told.append((done, of)))
    assert await rewinds.run(rewind_id)
    assert steps.done == [*"abcde"]
    assert told == [(2, 5), (4, 5), (5, 5)]
    found = await rewinds.get(rewind_id)
    assert (found.state, found.done, found.steps) == ("done", 5, 5)
    with pytest.raises(InvalidRequest, match="has ended"):
        await rewinds.cancel(rewind_id)


async def test_one_process_carries_it_out(rewinds: Rewinds, steps: Steps, database: Database) -> None:
    rewind_id, other = await begun(rewinds), opened(database, "two")

    async def intrude() -> None:
        assert not await other.run(rewind_id)

    steps.after["b"] = intrude
    assert await rewinds.run(rewind_id)
    assert steps.done == [*"abcde"]


async def test_after_a_crash_another_process_continues(rewinds: Rewinds, steps: Steps, database: Database) -> None:
    rewind_id = await begun(rewinds)

    async def crash() -> None:
        raise RuntimeError("crash")

    steps.after["c"] = crash
    with pytest.raises(RuntimeError):
        await rewinds.run(rewind_id)
    steps.after.clear()
    await run_left(opened(database, "two"))
    assert steps.done == [*"abc", *"cde"], "a step that was not saved is repeated"
    assert (await rewinds.get(rewind_id)).state == "done"


async def test_the_sweep_that_finds_it_does_not_wait_for_its_end(
    rewinds: Rewinds, steps: Steps, database: Database
) -> None:
    """Sweeps are cut off after some time, and a single step may take longer."""
    rewind_id = await begun(rewinds)
    begins, ends = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begins.set()
        await ends.wait()

    steps.after["c"] = slow
    for _ in range(2):
        await rewinds.run_left()
        await begins.wait()
    assert not await opened(database, "two").run(rewind_id)
    ends.set()
    await run_left(rewinds)
    assert (steps.done, (await rewinds.get(rewind_id)).state) == ([*"abcde"], "done")


async def test_one_that_is_continued_is_left_to_others_when_the_process_ends(
    rewinds: Rewinds, steps: Steps, database: Database
) -> None:
    rewind_id, begins = await begun(rewinds), asyncio.Event()

    async def endless() -> None:
        begins.set()
        await asyncio.Event().wait()

    steps.after["c"] = endless
    await rewinds.run_left()
    await begins.wait()
    await rewinds.close()
    steps.after.clear()
    await run_left(opened(database, "two"))
    assert (steps.done, (await rewinds.get(rewind_id)).state) == ([*"abc", *"cde"], "done")


async def test_it_can_be_cancelled(rewinds: Rewinds, steps: Steps) -> None:
    rewind_id = await begun(rewinds)
    steps.after["c"] = lambda: rewinds.cancel(rewind_id)
    assert await rewinds.run(rewind_id)
    assert steps.done == [*"abcd"]
    found = await rewinds.get(rewind_id)
    assert (found.state, found.done) == ("cancelled", 4)
    await run_left(rewinds)
    assert steps.done == [*"abcd"]


async def test_one_that_was_cancelled_before_it_ran_does_nothing(rewinds: Rewinds, steps: Steps) -> None:
    rewind_id = await begun(rewinds)
    await rewinds.cancel(rewind_id)
    assert await rewinds.run(rewind_id)
    assert (steps.done, (await rewinds.get(rewind_id)).state) == ([], "cancelled")


async def test_a_plan_is_kept_until_it_has_ended_or_for_an_hour(
    rewinds: Rewinds, steps: Steps, database: Database, clock: Clock
) -> None:
    own = RewindRequest(ActorFilter(user="m"), 0, by="m", own=1)
    planned, ended = await rewinds.begin(own, Plan([], [])), await begun(rewinds)
    await rewinds.run(ended)
    assert await rewinds.records.plan(ended) == "[]"
    for known in ({planned, ended}, {ended}):
        await rewinds.records.sweep()
        assert {rewind_id for rewind_id, _ in await rewinds.records.requests(0)} == known
        clock.advance(3601)


async def test_the_report_of_a_users_own_has_a_limit(
    rewinds: Rewinds, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 3)
    monkeypatch.setattr(Execution, "carry_out", failing)
    conflicts = [LeftAlone("conflict", ("c", name), "upload") for name in "xy"]
    todo = Plan([Step("remove", ("c", name)) for name in "abc"], conflicts)
    for request, listed in ((msgspec.structs.replace(REQUEST, own=1), 3), (REQUEST, 5)):
        rewind_id = await rewinds.begin(request, todo)
        record = await rewinds.records.get(rewind_id)
        assert record
        await rewinds.carry_out(record, cast("Places", None), cast("RequestContext", None))
        assert (found := await rewinds.records.get(rewind_id))
        assert (found.left_alone, len((await rewinds.get(rewind_id)).left_alone)) == (5, listed)


async def failing(_: object, steps: list[Step], **__: object) -> list[Any]:
    return [(step, "failed", "refused") for step in steps]


async def test_an_unknown_one(rewinds: Rewinds) -> None:
    for work in (rewinds.get, rewinds.cancel, rewinds.run):
        with pytest.raises(NotFound, match=r"This rewind doesn.t exist"):
            await work("nope")


async def test_a_users_own_is_begun_once_and_never_continued(rewinds: Rewinds, steps: Steps) -> None:
    request = RewindRequest(ActorFilter(user="m"), 0, by="m", own=1)
    rewind_id = await rewinds.begin(request, Plan([Step("remove", ("c", "a"))], []))
    assert [await rewinds.records.start(rewind_id) for _ in range(2)] == [True, False]
    await run_left(rewinds)
    assert await rewinds.run(rewind_id)
    assert (steps.done, (await rewinds.get(rewind_id)).state) == ([], "started")
