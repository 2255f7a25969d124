"""Pages of a quick disk are cut one after the other; a slow one holds nobody up."""

import asyncio

import pytest

from portico.providers.local import turns
from portico.providers.local.turns import Turns


class Visitors:
    """People who come one after the other, stay until they are told to leave, and are counted."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.inside: list[str] = []

    def come(self, name: str, leave: asyncio.Event) -> asyncio.Task[None]:
        return asyncio.create_task(self._visit(name, leave))

    async def _visit(self, name: str, leave: asyncio.Event) -> None:
        async with self.turns.turn():
            self.inside.append(name)
            await leave.wait()
            self.inside.remove(name)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 60.0)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("patience")
async def test_one_is_inside_at_a_time_in_the_order_of_coming() -> None:
    visitors = Visitors()
    leave = {name: asyncio.Event() for name in "abc"}
    tasks = [visitors.come(name, event) for name, event in leave.items()]
    for name in "abc":
        await settle()
        assert visitors.inside == [name]
        leave[name].set()
    await asyncio.gather(*tasks)
    assert visitors.inside == []


@pytest.mark.usefixtures("patience")
async def test_whoever_gives_up_waiting_keeps_nobody_out() -> None:
    visitors = Visitors()
    leave = asyncio.Event()
    first, second, third = (visitors.come(name, leave) for name in "abc")
    await settle()
    second.cancel()
    leave.set()
    await asyncio.gather(first, third)
    async with asyncio.timeout(5), visitors.turns.turn():
        pass


@pytest.mark.usefixtures("patience")
async def test_a_place_given_to_whoever_is_cancelled_goes_to_the_next() -> None:
    visitors = Visitors()
    leave = asyncio.Event()
    first, second, third = (visitors.come(name, leave) for name in "abc")
    await settle()
    leave.set()
    await first  # the second has its place now, and has not yet seen it
    second.cancel()
    async with asyncio.timeout(5):
        await third


async def test_a_long_turn_lets_the_next_one_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.0)
    visitors = Visitors()
    leave = asyncio.Event()
    tasks = [visitors.come(name, leave) for name in "abc"]
    async with asyncio.timeout(5):
        while visitors.inside != ["a", "b", "c"]:
            await asyncio.sleep(0.001)
    leave.set()
    await asyncio.gather(*tasks)
