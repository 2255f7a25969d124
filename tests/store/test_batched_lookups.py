"""Lookups that come while others run share a query; each caller gets its own row, or the failure."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Executable, Row, insert, select

from portico.model.errors import Unavailable
from portico.store import batched_lookups
from portico.store.batched_lookups import BatchedLookups
from portico.store.database import AnyRow, Database, Parameters
from portico.store.tables import cluster


class Gate(Database):
    """A database that counts queries, which wait until the gate is open."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.open = asyncio.Event()
        self.queries = 0
        self.failure: Exception | None = None

    async def fetch(self, query: Executable, parameters: Parameters = None, **options: Any) -> Sequence[AnyRow]:
        self.queries += 1
        await self.open.wait()
        if self.failure:
            raise self.failure
        return await super().fetch(query, parameters, **options)


@pytest.fixture
async def gate(database: Database, url: str) -> Gate:
    await database.execute(insert(cluster), [{"name": f"n{number}", "value": str(number)} for number in range(50)])
    return Gate(url)


@pytest.fixture
def lookups(gate: Gate) -> BatchedLookups[str]:
    return BatchedLookups(gate, select(cluster.c.value), cluster.c.name)


async def test_lookups_beyond_the_first_share_a_query(gate: Gate, lookups: BatchedLookups[str]) -> None:
    names = [f"n{number}" for number in range(50)] + ["n7", "none"]
    asked = [asyncio.create_task(lookups.first(name)) for name in names]
    await asyncio.sleep(0)
    asked[20].cancel()
    gate.open.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    values = [row.value if isinstance(row, Row) else row for row in found]
    assert isinstance(values.pop(20), asyncio.CancelledError)
    assert values == [str(number) for number in range(50) if number != 20] + ["7", None]
    assert gate.queries <= batched_lookups._AT_ONCE + 1
    row = await lookups.first("n3")  # nothing stays behind
    assert row is not None
    assert row.value == "3"
    await gate.close()


async def test_a_failure_reaches_every_caller(gate: Gate, lookups: BatchedLookups[str]) -> None:
    gate.failure = Unavailable("no answer")
    asked = [asyncio.create_task(lookups.first(f"n{number}")) for number in range(20)]
    await asyncio.sleep(0)
    gate.open.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(error) for error in found] == [Unavailable] * 20
    gate.failure = None
    assert await lookups.first("n3") is not None
    await gate.close()
