import asyncio
import threading
from collections.abc import Iterator

import pytest

from portico.accounts.passwords import FairPool
from portico.runtime.fair_turns import NoRoom


class Lane:
    """A pool of one thread, which is blocked until the gate opens, and the order in which it served."""

    def __init__(self, max_queued: int) -> None:
        self.pool = FairPool("test", 1, max_queued)
        self.gate = threading.Event()
        self.served: list[str] = []

    def submit(self, user: str, address: str = "") -> asyncio.Task[None]:
        def serve() -> None:
            self.gate.wait(30)
            self.served.append(user)

        keys = (user.encode(), (address or user).encode())
        return asyncio.create_task(self.pool.run(keys, serve))


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane(max_queued=4)
    yield lane
    lane.gate.set()
    lane.pool.close()


async def outcomes(tasks: list[asyncio.Task[None]]) -> list[type[BaseException] | None]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [None if each is None else type(each) for each in found]


async def test_users_take_turns_regardless_of_arrival(lane: Lane) -> None:
    tasks = [lane.submit(user, str(n)) for n, user in enumerate(["m", "m", "m", "a", "b"])]
    await asyncio.sleep(0)
    lane.gate.set()
    await asyncio.gather(*tasks)
    assert lane.served == ["m", "m", "a", "b", "m"]


async def test_in_a_full_lane_who_takes_most_makes_way(lane: Lane) -> None:
    crowd = [lane.submit("m", str(n)) for n in range(5)]
    await asyncio.sleep(0)
    guests = [lane.submit("a"), lane.submit("b")]
    await asyncio.sleep(0)
    lane.gate.set()
    assert await outcomes(guests) == [None, None]
    assert await outcomes(crowd) == [None, None, None, NoRoom, NoRoom]  # the last to come go first


async def test_one_address_with_many_names_makes_way_too(lane: Lane) -> None:
    crowd = [lane.submit(f"user{n}", "office") for n in range(5)]
    await asyncio.sleep(0)
    guest = lane.submit("a", "home")
    await asyncio.sleep(0)
    lane.gate.set()
    assert await outcomes([guest]) == [None]
    assert (await outcomes(crowd)).count(NoRoom) == 1


async def test_nobody_makes_way_for_an_equal(lane: Lane) -> None:
    first = [lane.submit(f"user{n}") for n in range(5)]
    await asyncio.sleep(0)
    late = lane.submit("late")
    await asyncio.sleep(0)
    assert await outcomes([late]) == [NoRoom]
    lane.gate.set()
    assert await outcomes(first) == [None] * 5


async def test_a_thread_that_nobody_waits_for_keeps_its_place_until_it_is_free(lane: Lane) -> None:
    leaver = lane.submit("a")
    await asyncio.sleep(0)
    leaver.cancel()
    assert await outcomes([leaver]) == [asyncio.CancelledError]
    assert lane.pool.jobs == 1
    stayer = lane.submit("b")
    await asyncio.sleep(0)
    assert lane.pool.jobs == 2
    lane.gate.set()
    await stayer
    assert lane.served == ["a", "b"]
    assert lane.pool.jobs == 0


async def test_what_the_work_raises_reaches_who_waits(lane: Lane) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lane.pool.run((b"a",), fail)
    assert lane.pool.jobs == 0
