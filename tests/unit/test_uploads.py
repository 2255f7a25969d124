"""One owner at a time for each resumable upload, on both databases."""

import asyncio
import os
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from portico import processes
from portico.errors import Unavailable, UploadTakenOver
from portico.store import uploads as module
from portico.store.database import Database
from portico.store.sealed import Sealed
from portico.store.tables import connections, uploads
from portico.store.uploads import OPEN, UploadRecord, Uploads

ID = "a" * 32
SEAL = Sealed(b"k" * 32)


@pytest.fixture
async def node(database: Database) -> Uploads:
    await database.execute(insert(connections).values(name="store", kind="local", options="{}", revision=1))
    made = Uploads(database, SEAL, "one")
    now = database.now()
    await made.add(UploadRecord(ID, None, "store", OPEN, "/a", 10, 0, b"{}", b"first", now, now + 60_000))
    return made


@pytest.fixture
async def other_node(database: Database, node: Uploads) -> Uploads:
    """It shares nothing with the first but the database."""
    return Uploads(database, SEAL, "two")


async def held(owner: Uploads, taken: asyncio.Event, saved: int = 5) -> BaseException | None:
    """Hold the upload until somebody wants it, save, and let it go."""
    async with owner.claimed(ID) as claim:
        assert claim
        taken.set()
        wanted = asyncio.Event()
        claim.interrupt = wanted.set
        await wanted.wait()
        await claim.save(offset=saved, state=b"second")
        try:
            claim.check()
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same-process", "other-node"])
async def test_a_newer_request_takes_over(
    node: Uploads, other_node: Uploads, database: Database, elsewhere: bool
) -> None:
    taken = asyncio.Event()
    owner = Uploads(database, SEAL, "owner", renewal=timedelta(milliseconds=50)) if elsewhere else node
    older = asyncio.create_task(held(owner, taken))
    await taken.wait()
    async with (other_node if elsewhere else node).claimed(ID) as newer:
        assert newer
        assert (newer.record.offset, newer.record.state) == (5, b"second"), "what the older one saved last"
    assert isinstance(await older, UploadTakenOver)


async def test_an_owner_that_died_is_replaced_at_once(
    node: Uploads, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node.claimed(ID) as dead:
        assert dead
        await database.execute(update(uploads).values(owner="gone"))
        monkeypatch.setattr(processes, "state_of", lambda _: processes.ProcessState.ENDED)
        async with Uploads(database, SEAL, "two").claimed(ID) as newer:
            assert newer
            await newer.save(offset=7)
            with pytest.raises(UploadTakenOver):
                await dead.save(offset=3)
    row = await database.first(select(uploads.c.offset))
    assert row
    assert row.offset == 7


async def test_an_owner_whose_lease_ended_can_no_longer_save(node: Uploads, database: Database) -> None:
    async with node.claimed(ID) as late:
        assert late
        await database.execute(update(uploads).values(owned_until=0, owner="elsewhere"))
        async with Uploads(database, SEAL, "two").claimed(ID) as newer:
            assert newer
            with pytest.raises(UploadTakenOver):
                await late.save(offset=3)


async def test_an_owner_that_does_not_make_way_is_not_waited_for_forever(
    node: Uploads, other_node: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_WAIT_SECONDS", 0.1)
    async with node.claimed(ID):
        with pytest.raises(Unavailable):
            async with other_node.claimed(ID):
                pass


async def test_one_of_many_owns_it_at_any_time(node: Uploads, other_node: Uploads) -> None:
    owners = 0

    async def own(uploads: Uploads) -> None:
        nonlocal owners
        async with uploads.claimed(ID) as claim:
            assert claim
            owners += 1
            assert owners == 1
            await asyncio.sleep(0)
            owners -= 1

    await asyncio.gather(*(own(each) for each in (node, other_node) * 5))


async def test_a_gateway_that_stops_lets_go(node: Uploads) -> None:
    taken = asyncio.Event()
    running = asyncio.create_task(held(node, taken))
    await taken.wait()
    node.stop()
    assert isinstance(await running, Unavailable)


async def test_there_is_no_such_upload(node: Uploads) -> None:
    async with node.claimed("b" * 32) as claim:
        assert claim is None
    assert await node.get("b" * 32) is None


async def test_a_state_belongs_to_its_row(node: Uploads, database: Database) -> None:
    row = await database.first(select(uploads.c.state, uploads.c.owner))
    assert row
    assert b"first" not in row.state
    assert SEAL.open(row.state, ID) == b"first"


async def test_an_ended_upload_has_expired(node: Uploads, database: Database) -> None:
    assert [row.id for row in await module.unfinished(database)] == [ID]
    assert await node.expired() == []
    assert await module.end(database, ID)
    assert not await module.end(database, "b" * 32)
    assert await node.expired() == [("store", ID)]
    async with node.claimed(ID) as claim:
        assert claim
        await claim.remove()
    assert await module.unfinished(database) == []


async def test_the_owner_is_this_process(node: Uploads, database: Database) -> None:
    async with node.claimed(ID):
        row = await database.first(select(uploads.c.owner))
        assert row
        assert row.owner.startswith(processes.name_of(os.getpid()))


async def test_a_state_that_is_unchanged_is_not_written_again(node: Uploads, database: Database) -> None:
    async def row() -> tuple[int, bytes]:
        (found,) = await database.fetch(select(uploads.c.offset, uploads.c.state))
        return found.offset, found.state

    before = (await row())[1]
    async with node.claimed(ID) as claim:
        assert claim
        await claim.progress(3, b"first")
        assert await row() == (3, before)
        await claim.progress(4, b"second")
        offset, sealed = await row()
        assert (offset, SEAL.open(sealed, ID)) == (4, b"second")
        await claim.save(state=b"third")
        await claim.progress(5, b"second", last=True)
        assert SEAL.open((await row())[1], ID) == b"second"


async def test_an_upload_that_is_claimed_while_the_gateway_stops(node: Uploads) -> None:
    node.stop()
    async with node.claimed(ID) as claim:
        assert claim
        with pytest.raises(Unavailable, match="stopping"):
            claim.check()
