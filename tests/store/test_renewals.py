"""What a process holds is renewed together, until it is given back or lost."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from portico.model.errors import Unavailable
from portico.store import heartbeats as module
from portico.store.heartbeats import Heartbeats

OFTEN = timedelta(milliseconds=1)


class Table:
    """In place of the database: `gone` belongs to others, and while `slow` is not set, nothing is answered."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gone: set[str] = set()
        self.errors: list[Exception] = []
        self.slow = asyncio.Event()
        self.slow.set()
        self.called = asyncio.Condition()

    async def renew(self, held: Sequence[str]) -> list[str]:
        async with self.called:
            self.calls.append(sorted(held))
            self.called.notify_all()
        await self.slow.wait()
        if self.errors:
            raise self.errors.pop()
        return [each for each in held if each not in self.gone]

    async def until(self, held: list[str]) -> None:
        async with self.called:
            before = len(self.calls)
            await self.called.wait_for(lambda: held in self.calls[before:])


@pytest.fixture
async def table() -> Table:
    return Table()


async def test_all_together_until_it_is_given_back(table: Table) -> None:
    held = Heartbeats("test", OFTEN, table.renew)
    held.add("a")
    held.add("b")
    await table.until(["a", "b"])
    await held.remove("a")
    assert "a" not in held
    await table.until(["b"])
    await held.remove("b")
    calls = len(table.calls)
    await asyncio.sleep(0.05)
    assert len(table.calls) == calls
    held.add("c")
    await table.until(["c"])
    await held.remove("c")


async def test_what_is_lost_is_not_renewed(table: Table) -> None:
    held = Heartbeats("test", OFTEN, table.renew)
    for each in "abc":
        held.add(each)
    table.gone = {"b"}
    await table.until(["a", "c"])
    assert "b" not in held


async def test_an_error_loses_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY", OFTEN)
    table.errors = [Unavailable("Not now.", retry_after=1)]
    held = Heartbeats("test", timedelta(milliseconds=2), table.renew)
    held.add("a")
    await table.until(["a"])
    await table.until(["a"])
    assert "a" in held


async def test_a_renewal_under_way_is_waited_for_and_never_cancelled(table: Table) -> None:
    table.slow.clear()
    held = Heartbeats("test", OFTEN, table.renew)
    held.add("a")
    await table.until(["a"])
    removing = asyncio.create_task(held.remove("a"))
    await asyncio.sleep(0)
    assert not removing.done()
    removing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await removing
    again = asyncio.create_task(held.remove("a"))
    await asyncio.sleep(0)
    table.slow.set()
    await again
    assert held._renewing is None
