"""One owner at a time for each resumable upload, on both databases."""

import asyncio
import os
from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import insert, select, update

from portico.model.errors import Unavailable, UploadTakenOver
from portico.runtime import processes
from portico.store import uploads as module
from portico.store.database import Database
from portico.store.encrypted_columns import Sealed
from portico.store.tables import connections, uploads
from portico.store.uploads import BYTES_EACH, HIDDEN, OPEN, Scope, UploadRecord, Uploads
from portico.store.users import User

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


LINK = "1" * 16
RECORD = UploadRecord("", None, "store", OPEN, "/a", 10, 0, b"{}", b"state", 0, 2**50)


async def test_a_burst_of_uploads_passes_exactly_the_limit(node: Uploads, other_node: Uploads, alice: User) -> None:
    async def add(number: int) -> Scope | None:
        record = replace(RECORD, id=f"{number:032x}", user_id=alice.id)
        return await (node, other_node)[number % 2].add(record, {Scope.USER: 3})

    found = await asyncio.gather(*map(add, range(16)))
    assert sorted(map(str, found)) == ["None"] * 3 + ["user"] * 13


async def test_limits_of_a_link_and_an_address_are_their_own(node: Uploads, alice: User) -> None:
    number = 0

    async def add(link: str | None, address: str | None, limits: dict[Scope, int]) -> Scope | None:
        nonlocal number
        number += 1
        record = replace(RECORD, id=f"{number:032x}", user_id=alice.id, link=link, address=address)
        return await node.add(record, limits)

    limits = {Scope.ADDRESS: 2, Scope.LINK: 3}
    assert [await add(LINK, "here", limits) for _ in range(3)] == [None, None, Scope.ADDRESS]
    assert [await add(LINK, "there", limits) for _ in range(2)] == [None, Scope.LINK]
    assert await add("2" * 16, "here", limits) is None, "another link"
    assert await add(None, None, {Scope.USER: 1}) is None, "the owner"


async def test_what_uploads_say_of_themselves_is_limited_in_bytes(node: Uploads, alice: User) -> None:
    async def add(number: int) -> Scope | None:
        record = replace(RECORD, id=f"{number:032x}", user_id=alice.id, details=b"x" * 4 * BYTES_EACH)
        return await node.add(record, {Scope.USER: 10})

    assert [await add(number) for number in range(4)] == [None, None, None, Scope.USER]


async def test_an_upload_lives_longer_once_some_of_it_has_arrived(database: Database, node: Uploads) -> None:
    made = Uploads(database, SEAL, "two", kept=timedelta(days=7))
    async with made.claimed(ID) as claim:
        assert claim
        empty = claim.record.expires_at
        await claim.progress(0, b"first")
        assert claim.record.expires_at == empty
        for offset in (1, 2):
            await claim.progress(offset, b"second")
    record = await made.get(ID)
    assert record
    assert record.expires_at == record.created_at + 7 * 86_400_000 == claim.record.expires_at


async def test_whoever_abandons_an_upload_sees_the_state_that_it_has_reached(node: Uploads) -> None:
    async with node.claimed(ID) as claim:
        assert claim
        await claim.progress(4, b"reached")
        assert (claim.record.offset, claim.record.state) == (4, b"reached")
        await claim.save(state=b"further", details='{"partial":true}')
        assert (claim.record.state, claim.record.details) == (b"further", b'{"partial":true}')


async def test_a_hidden_upload_is_removed_when_its_request_is_gone(
    database: Database, node: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = replace(RECORD, id="b" * 32, kind=HIDDEN)
    await node.add(hidden)
    assert await node.expired() == [], "it is about to be claimed"
    async with node.claimed(hidden.id):
        assert await node.expired() == []
        monkeypatch.setattr(processes, "state_of", lambda _: processes.ProcessState.ENDED)
        assert await node.expired() == [("store", hidden.id)]
    assert await node.expired() == [("store", hidden.id)]
