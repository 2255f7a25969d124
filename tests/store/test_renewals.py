"""What a process holds is renewed together, until it is given back or lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from portico.model.errors import Unavailable
from portico.store import ownership as module
from portico.store.database import Database
from portico.store.ownership import Ownership
from portico.store.tables import leases

OFTEN = timedelta(milliseconds=1)


class Rows(Ownership[Any]):
    """In place of the database: `gone` belongs to others, and while `slow` is not set, nothing is answered."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, leases, "test", "", lifetime=OFTEN, renewal=OFTEN)
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
async def rows(database: Database) -> AsyncIterator[Rows]:
    rows = Rows(database)
    yield rows
    rows.slow.set()
    for held in [*rows._held]:  # or a renewal may begin when the loop ends
        await rows.let_go(held)


async def test_all_together_until_it_is_given_back(rows: Rows) -> None:
    rows.hold("a")
    rows.hold("b")
    await rows.until(["a", "b"])
    await rows.let_go("a")
    assert "a" not in rows._held
    await rows.until(["b"])
    await rows.let_go("b")
    calls = len(rows.calls)
    await asyncio.sleep(0.05)
    assert len(rows.calls) == calls
    rows.hold("c")
    await rows.until(["c"])
    await rows.let_go("c")


async def test_what_is_lost_is_not_renewed(rows: Rows) -> None:
    for each in "abc":
        rows.hold(each)
    rows.gone = {"b"}
    await rows.until(["a", "c"])
    assert "b" not in rows._held


async def test_an_error_loses_nothing(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY", OFTEN)
    rows.errors = [Unavailable("Not now.", retry_after=1)]
    rows._interval = timedelta(milliseconds=2)
    rows.hold("a")
    await rows.until(["a"])
    await rows.until(["a"])
    assert "a" in rows._held


async def test_a_renewal_under_way_is_waited_for_and_never_cancelled(rows: Rows) -> None:
    rows.slow.clear()
    rows.hold("a")
    await rows.until(["a"])
    removing = asyncio.create_task(rows.let_go("a"))
    await asyncio.sleep(0)
    assert not removing.done()
    removing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await removing
    again = asyncio.create_task(rows.let_go("a"))
    await asyncio.sleep(0)
    rows.slow.set()
    await again
    assert rows._renewing is None
