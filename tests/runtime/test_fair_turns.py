import asyncio

import pytest

from portico.runtime.fair_turns import FairTurns, Keys, NoRoom


class Workers:
    """Those who have a turn, and those who wait for one."""

    def __init__(self, turns: FairTurns) -> None:
        self.turns = turns
        self.working: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, name: str, keys: Keys, cost: int = 1) -> None:
        async def work() -> None:
            async with self.turns.turn(keys, cost):
                self.working[name] = asyncio.Event()
                await self.working[name].wait()

        self.tasks[name] = asyncio.create_task(work())
        await self.settle()

    async def end(self, name: str) -> None:
        self.working.pop(name).set()
        await self.tasks.pop(name)
        await self.settle()

    async def leave(self, name: str) -> None:
        self.tasks[name].cancel()
        await self.settle()
        self.working.pop(name, None)

    async def settle(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)


async def test_a_share_leaves_room_for_others() -> None:
    workers = Workers(FairTurns(3, shares=(2,)))
    for number in range(4):
        await workers.begin(f"m{number}", ("m",))
    await workers.begin("a", ("a",))
    await workers.begin("b", ("b",))
    assert set(workers.working) == {"m0", "m1", "a"}
    await workers.end("m0")
    assert set(workers.working) == {"m1", "a", "m2"}
    await workers.end("a")
    assert set(workers.working) == {"m1", "m2", "b"}


async def test_a_share_of_a_group_is_counted_over_its_members() -> None:
    workers = Workers(FairTurns(9, shares=(2, 3)))
    for number in range(4):
        await workers.begin(f"guest{number}", ((number // 2, "link"), "link"))
    await workers.begin("user", ("user",))
    assert set(workers.working) == {"guest0", "guest1", "guest2", "user"}
    await workers.end("guest0")
    assert "guest3" in workers.working


async def test_cost_counts_and_the_next_in_line_is_not_overtaken_for_ever() -> None:
    workers = Workers(FairTurns(10, shares=(10,)))
    await workers.begin("small", ("m",), 4)
    await workers.begin("large", ("a",), 8)
    await workers.begin("late", ("b",), 1)
    assert set(workers.working) == {"small"}
    await workers.end("small")
    assert set(workers.working) == {"large", "late"}


async def test_more_than_all_of_it_has_a_turn_alone() -> None:
    workers = Workers(FairTurns(10, shares=(5,)))
    await workers.begin("huge", ("m",), 99)
    await workers.begin("small", ("a",))
    assert set(workers.working) == {"huge"}
    await workers.end("huge")
    assert set(workers.working) == {"small"}


async def test_beyond_a_limit_nobody_waits() -> None:
    turns = FairTurns(1, limits=(2,))
    workers = Workers(turns)
    await workers.begin("first", ("m",))
    await workers.begin("second", ("m",))
    with pytest.raises(NoRoom):
        await turns.take(("m",))
    await workers.begin("other", ("a",))
    await workers.end("first")
    assert set(workers.working) == {"second"}


@pytest.mark.parametrize("leaver", ["running", "waiting"])
async def test_who_leaves_makes_room(leaver: str) -> None:
    turns = FairTurns(1, shares=(1,))
    workers = Workers(turns)
    await workers.begin("running", ("m",))
    await workers.begin("waiting", ("m",))
    await workers.begin("next", ("m",))
    await workers.leave(leaver)
    for name in ("running", "waiting", "next"):
        if name != leaver:
            await workers.end(name)
    assert (turns.running, turns.load, turns._queues, turns._load, turns._running) == (0, 0, {}, {}, {})


async def test_a_turn_that_is_granted_to_somebody_who_leaves_goes_to_the_next() -> None:
    turns = FairTurns(1)
    first = await turns.take(("m",))
    leaving, staying = (asyncio.create_task(turns.take((name,))) for name in ("a", "b"))
    await asyncio.sleep(0)
    first.release()
    leaving.cancel()
    (await staying).release()
    assert turns.load == 0
