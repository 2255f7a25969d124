"""Of all requests for one upload, one at a time writes."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from portico.accounts.connections import Connections
from portico.model.errors import UploadTakenOver
from portico.store.database import AnyRow, Database
from portico.store.encrypted_columns import Sealed
from portico.store.tables import uploads as table
from portico.store.uploads import OPEN, UploadRecord, Uploads

ID = "0" * 32
RENEWAL = timedelta(milliseconds=100)


@pytest.fixture
async def nodes(database: Database, connections: Connections) -> tuple[Uploads, Uploads]:
    # Renewed often, but never late, however busy the machine is.
    times = {"lifetime": timedelta(seconds=60), "renewal": RENEWAL}
    nodes = (Uploads(database, Sealed(bytes(32)), "one", **times), Uploads(database, Sealed(bytes(32)), "two", **times))
    record = UploadRecord(ID, None, "local", OPEN, "/file", 10, 0, b"{}", b"state", 0, 2**50)
    await nodes[0].add(record)
    return nodes


async def row(database: Database) -> AnyRow:
    (row,) = await database.fetch(select(table))
    return row


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_an_owner_that_still_works_is_waited_for(nodes: tuple[Uploads, Uploads], database: Database) -> None:
    order: list[str] = []

    async def newer() -> None:
        async with nodes[1].claimed(ID):
            order.append("newer")

    async with nodes[0].claimed(ID) as claim:
        assert claim
        waiting = asyncio.create_task(newer())

        async def wanted() -> bool:
            return bool((await row(database)).wanted)

        await until(wanted)
        first = (await row(database)).owned_until

        async def outlived() -> bool:
            return bool((await row(database)).owned_until > first + 1000)

        await until(outlived)
        with pytest.raises(UploadTakenOver):
            claim.check()
        await claim.save(offset=10)
        order.append("older")
    await waiting
    assert order == ["older", "newer"]


async def test_an_owner_that_was_taken_over_saves_nothing(nodes: tuple[Uploads, Uploads], database: Database) -> None:
    async with nodes[0].claimed(ID) as claim:
        assert claim
        await database.execute(update(table).values(owned_until=0, owner="suspended"))
        async with nodes[1].claimed(ID) as newer:
            assert newer
            with pytest.raises(UploadTakenOver):
                await claim.save(offset=5)
            await newer.save(offset=7)
    assert (await row(database)).offset == 7


async def test_all_claims_of_a_process_are_renewed_together(
    nodes: tuple[Uploads, Uploads], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"{number:032}" for number in range(1, 6)]
    for upload_id in ids:
        await nodes[0].add(UploadRecord(upload_id, None, "local", OPEN, "/f", 1, 0, b"{}", b"s", 0, 2**50))
    async with AsyncExitStack() as stack:
        for upload_id in ids:
            await stack.enter_async_context(nodes[0].claimed(upload_id))
        lost = await stack.enter_async_context(nodes[0].claimed(ID))
        assert lost
        await database.execute(update(table).where(table.c.id == ID).values(owner="another"))
        writes = []
        write = database.write

        async def counted(statement: Any, *parameters: Any, **options: Any) -> Any:
            writes.append(statement)
            return await write(statement, *parameters, **options)

        monkeypatch.setattr(database, "write", counted)
        began = time.monotonic()
        first = min(row.owned_until for row in await database.fetch(select(table).where(table.c.id != ID)))

        async def renewed() -> bool:
            rows = await database.fetch(select(table).where(table.c.id != ID))
            return all(row.owned_until > first + 1000 for row in rows)

        await until(renewed)
        intervals = (time.monotonic() - began) / RENEWAL.total_seconds()
        assert len(writes) <= intervals + 2, "one for all, some ten times in a second"
        with pytest.raises(UploadTakenOver):
            lost.check()
