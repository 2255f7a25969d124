import asyncio

import pytest

from portico.joint import Joint


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


async def begun(joint: Joint[str, int], work: Work, number: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(joint.run("key", work)) for _ in range(number)]
    await asyncio.sleep(0.01)
    return tasks


async def test_it_is_done_once_for_all_who_ask_meanwhile() -> None:
    joint: Joint[str, int] = Joint()
    work, other = Work(), Work()
    tasks = await begun(joint, work, 5)
    other.may_end.set()
    assert await joint.run("other key", other) == 1
    work.may_end.set()
    assert await asyncio.gather(*tasks) == [1] * 5
    assert await joint.run("key", work) == 2


async def test_who_comes_after_it_was_closed_has_it_done_again() -> None:
    joint: Joint[str, int] = Joint()
    work = Work()

    async def closing() -> int:
        joint.close("key")
        return await work()

    first = [asyncio.create_task(joint.run("key", closing)) for _ in range(2)]
    await asyncio.sleep(0.01)
    second = await begun(joint, work, 2)
    joint.close("key")  # it is not ours to close
    third = await begun(joint, work, 1)
    joint.close_all()
    fourth = await begun(joint, work, 1)
    work.may_end.set()
    assert await asyncio.gather(*first, *second, *third, *fourth) == [1, 1, 2, 2, 2, 3]


async def test_nobody_joins_what_began_too_long_ago() -> None:
    joint: Joint[str, int] = Joint(0.005)
    work = Work()
    first = await begun(joint, work, 2)
    second = await begun(joint, work, 1)
    work.may_end.set()
    assert await asyncio.gather(*first, *second) == [1, 1, 2]
    assert not joint._open
    assert not joint._running


async def test_it_can_be_broken_off() -> None:
    joint: Joint[str, int] = Joint()
    tasks = await begun(joint, Work(), 3)
    await joint.end()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    await joint.end()


async def test_one_who_leaves_does_not_take_the_others_along() -> None:
    joint: Joint[str, int] = Joint()
    work = Work()
    leaving, staying = await begun(joint, work, 2)
    leaving.cancel()
    await asyncio.sleep(0.01)
    work.may_end.set()
    assert await staying == 1
    assert leaving.cancelled()


async def test_all_hear_of_a_failure_and_the_next_one_tries_again() -> None:
    joint: Joint[str, int] = Joint()

    async def fail() -> int:
        raise ValueError("no")

    outcomes = await asyncio.gather(*(joint.run("key", fail) for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["no"] * 3
    with pytest.raises(ValueError, match="no"):
        await joint.run("key", fail)
