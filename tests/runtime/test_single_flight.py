import asyncio
from types import SimpleNamespace

import pytest

from portico.runtime.tasks import SingleFlight


class Work:
    """Counts how often it is done, and waits until it may end."""

    def __init__(self) -> None:
        self.times = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> int:
        self.times += 1
        number = self.times
        await self.may_end.wait()
        return number


async def begun(single_flight: SingleFlight[str, int], work: Work, number: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(single_flight.run("key", work)) for _ in range(number)]
    await rounds()
    return tasks


async def rounds() -> None:
    """Let every task run until it waits: the callers first, then the work that they have started."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_it_is_done_once_for_all_who_ask_meanwhile() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()
    work, other = Work(), Work()
    tasks = await begun(single_flight, work, 5)
    other.may_end.set()
    assert await single_flight.run("other key", other) == 1
    work.may_end.set()
    assert await asyncio.gather(*tasks) == [1] * 5
    assert await single_flight.run("key", work) == 2


async def test_who_comes_after_it_was_closed_has_it_done_again() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()
    work = Work()

    async def closing() -> int:
        single_flight.forget("key")
        return await work()

    first = [asyncio.create_task(single_flight.run("key", closing)) for _ in range(2)]
    await rounds()
    second = await begun(single_flight, work, 2)
    single_flight.forget("key")  # it is not ours to close
    third = await begun(single_flight, work, 1)
    single_flight.forget_all()
    fourth = await begun(single_flight, work, 1)
    work.may_end.set()
    assert await asyncio.gather(*first, *second, *third, *fourth) == [1, 1, 2, 2, 2, 3]


async def test_nobody_joins_what_began_too_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("portico.runtime.tasks.time", SimpleNamespace(monotonic=lambda: clock.now))
    single_flight: SingleFlight[str, int] = SingleFlight(0.2)
    work = Work()
    first = await begun(single_flight, work, 1)
    clock.now += 0.1
    first += await begun(single_flight, work, 1)
    clock.now += 0.2
    second = await begun(single_flight, work, 1)
    work.may_end.set()
    assert await asyncio.gather(*first, *second) == [1, 1, 2]
    assert not single_flight._calls
    assert not single_flight._running


async def test_it_can_be_broken_off() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()
    tasks = await begun(single_flight, Work(), 3)
    await single_flight.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    await single_flight.cancel()


async def test_one_who_leaves_does_not_take_the_others_along() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()
    work = Work()
    leaving, staying = await begun(single_flight, work, 2)
    leaving.cancel()
    await rounds()
    work.may_end.set()
    assert await staying == 1
    assert leaving.cancelled()


async def test_all_hear_of_a_failure_and_the_next_one_tries_again() -> None:
    single_flight: SingleFlight[str, int] = SingleFlight()

    async def fail() -> int:
        raise ValueError("no")

    outcomes = await asyncio.gather(*(single_flight.run("key", fail) for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no"] * 3
    with pytest.raises(ValueError, match="no"):
        await single_flight.run("key", fail)
