"""A rewind is carried out by one process at a time, and ends when that is wanted."""

from typing import Any, cast

import pytest

from portico.accounts.share_links import ShareLinks
from portico.drive.connection_pool import ConnectionPool
from portico.model.errors import InvalidRequest, NotFound
from portico.operations.rewind import rewinds as module
from portico.operations.rewind.execution import Execution
from portico.operations.rewind.plan import Plan
from portico.operations.rewind.rewinds import RewindRequest, Rewinds
from portico.operations.rewind.steps import Step
from portico.store.database import Database
from portico.store.history import ActorFilter
from portico.store.journal import Journal
from portico.store.leases import Leases
from portico.store.trash import TrashRecords

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
def rewinds(database: Database) -> Rewinds:
    return opened(database)


async def begun(rewinds: Rewinds) -> str:
    return await rewinds.begin(REQUEST, Plan([Step("remove", ("c", name)) for name in "abcde"], []))


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
    await opened(database, "two").run_left()
    assert steps.done == [*"abc", *"cde"], "a step that was not saved is repeated"
    assert (await rewinds.get(rewind_id)).state == "done"


async def test_it_can_be_cancelled(rewinds: Rewinds, steps: Steps) -> None:
    rewind_id = await begun(rewinds)
    steps.after["c"] = lambda: rewinds.cancel(rewind_id)
    assert await rewinds.run(rewind_id)
    assert steps.done == [*"abcd"]
    found = await rewinds.get(rewind_id)
    assert (found.state, found.done) == ("cancelled", 4)
    await rewinds.run_left()
    assert steps.done == [*"abcd"]


async def test_one_that_was_cancelled_before_it_ran_does_nothing(rewinds: Rewinds, steps: Steps) -> None:
    rewind_id = await begun(rewinds)
    await rewinds.cancel(rewind_id)
    assert await rewinds.run(rewind_id)
    assert (steps.done, (await rewinds.get(rewind_id)).state) == ([], "cancelled")


async def test_an_unknown_one(rewinds: Rewinds) -> None:
    for work in (rewinds.get, rewinds.cancel, rewinds.run):
        with pytest.raises(NotFound, match="This rewind doesn.t exist"):
            await work("nope")


async def test_a_users_own_is_begun_once_and_never_continued(rewinds: Rewinds, steps: Steps) -> None:
    request = RewindRequest(ActorFilter(user="m"), 0, by="m", own=1)
    rewind_id = await rewinds.begin(request, Plan([Step("remove", ("c", "a"))], []))
    assert [await rewinds.records.start(rewind_id) for _ in range(2)] == [True, False]
    await rewinds.run_left()
    assert await rewinds.run(rewind_id)
    assert (steps.done, (await rewinds.get(rewind_id)).state) == ([], "started")
