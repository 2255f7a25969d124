import asyncio
import threading
from collections.abc import Iterator

import pytest

from portico.accounts.lanes import Lane, LaneFull


class Counter:
    """A lane of one place, which is held until the gate opens, and the order in which it served."""

    def __init__(self, room: int) -> None:
        self.lane = Lane("test", 1, room)
        self.gate = threading.Event()
        self.served: list[str] = []

    def come(self, user: str, place: str = "") -> asyncio.Task[None]:
        def serve() -> None:
            self.gate.wait(30)
            self.served.append(user)

        keys = (user.encode(), (place or user).encode())
        return asyncio.create_task(self.lane.run(keys, serve))


@pytest.fixture
def counter() -> Iterator[Counter]:
    counter = Counter(room=4)
    yield counter
    counter.gate.set()
    counter.lane.close()


async def outcomes(tasks: list[asyncio.Task[None]]) -> list[type[BaseException] | None]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [None if each is None else type(each) for each in found]


async def test_users_take_turns_whoever_came_first(counter: Counter) -> None:
    tasks = [counter.come(user, str(n)) for n, user in enumerate(["m", "m", "m", "a", "b"])]
    await asyncio.sleep(0)
    counter.gate.set()
    await asyncio.gather(*tasks)
    assert counter.served == ["m", "m", "a", "b", "m"]


async def test_in_a_full_lane_who_takes_most_makes_way(counter: Counter) -> None:
    crowd = [counter.come("m", str(n)) for n in range(5)]
    await asyncio.sleep(0)
    guests = [counter.come("a"), counter.come("b")]
    await asyncio.sleep(0)
    counter.gate.set()
    assert await outcomes(guests) == [None, None]
    assert await outcomes(crowd) == [None, None, None, LaneFull, LaneFull]  # the last to come go first


async def test_one_address_with_many_names_makes_way_too(counter: Counter) -> None:
    crowd = [counter.come(f"user{n}", "office") for n in range(5)]
    await asyncio.sleep(0)
    guest = counter.come("a", "home")
    await asyncio.sleep(0)
    counter.gate.set()
    assert await outcomes([guest]) == [None]
    assert (await outcomes(crowd)).count(LaneFull) == 1


async def test_nobody_makes_way_for_an_equal(counter: Counter) -> None:
    first = [counter.come(f"user{n}") for n in range(5)]
    await asyncio.sleep(0)
    late = counter.come("late")
    await asyncio.sleep(0)
    assert await outcomes([late]) == [LaneFull]
    counter.gate.set()
    assert await outcomes(first) == [None] * 5


async def test_a_thread_that_nobody_waits_for_keeps_its_place_until_it_is_free(counter: Counter) -> None:
    leaver = counter.come("a")
    await asyncio.sleep(0)
    leaver.cancel()
    assert await outcomes([leaver]) == [asyncio.CancelledError]
    assert counter.lane.inside == 1
    stayer = counter.come("b")
    await asyncio.sleep(0)
    assert counter.lane.inside == 2
    counter.gate.set()
    await stayer
    assert counter.served == ["a", "b"]
    assert counter.lane.inside == 0


async def test_what_the_work_raises_reaches_who_waits(counter: Counter) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await counter.lane.run((b"a",), fail)
    assert counter.lane.inside == 0
