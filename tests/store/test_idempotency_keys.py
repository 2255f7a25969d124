"""Of all requests under one key, one at a time runs, until one has an answer."""

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from portico.runtime import processes
from portico.store import idempotency
from portico.store.database import Database
from portico.store.idempotency import KEPT, LIFETIME, Answered, IdempotencyKeys, RequestClaim, Reused, Running
from portico.store.tables import idempotency_keys

KEY, REQUEST, OTHER = b"k" * 32, b"r" * 32, b"o" * 32
SCOPE = "local\n/alice\nupload"
ACTOR = "1"


@pytest.fixture
def keys(database: Database) -> IdempotencyKeys:
    return IdempotencyKeys(database)


async def claimed(keys: IdempotencyKeys, request: bytes = REQUEST) -> RequestClaim:
    claim = await keys.claim(KEY, request, SCOPE, ACTOR)
    assert isinstance(claim, RequestClaim)
    return claim


async def rows(database: Database) -> int:
    [row] = await database.fetch(select(func.count()).select_from(idempotency_keys))
    return int(row[0])


async def vanish(claim: RequestClaim) -> None:
    """As if its process had ended on another machine."""
    await claim.let_go()


async def test_an_answer_is_kept_for_a_day(keys: IdempotencyKeys, database: Database, clock: Any) -> None:
    claim = await claimed(keys)
    assert not claim.repeated
    assert claim.first_at == clock.moment
    assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Running()
    await claim.answer(b"done")
    for _ in range(2):
        assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Answered(b"done", SCOPE)
    clock.advance(KEPT.total_seconds() - 1)
    await keys.sweep()
    assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Answered(b"done", SCOPE)
    clock.advance(1)
    again = await claimed(keys)
    assert not again.repeated
    await again.answer(b"again")
    clock.advance(KEPT.total_seconds())
    await keys.sweep()
    assert await rows(database) == 0


async def test_a_key_belongs_to_one_request(keys: IdempotencyKeys) -> None:
    claim = await claimed(keys)
    assert await keys.claim(KEY, OTHER, SCOPE, ACTOR) == Reused()
    await claim.answer(b"done")
    assert await keys.claim(KEY, OTHER, SCOPE, ACTOR) == Reused()
    another = await keys.claim(b"x" * 32, OTHER, SCOPE, ACTOR)
    assert isinstance(another, RequestClaim)
    await another.give_up(begun=True)
    assert await keys.claim(b"x" * 32, REQUEST, SCOPE, ACTOR) == Reused()


async def test_of_many_one_runs(database: Database) -> None:
    nodes = [IdempotencyKeys(database) for _ in range(10)]
    found = await asyncio.gather(*(node.claim(KEY, REQUEST, SCOPE, ACTOR) for node in nodes))
    [claim] = [each for each in found if isinstance(each, RequestClaim)]
    assert found.count(Running()) == 9
    await claim.give_up(begun=True)
    found = await asyncio.gather(*(node.claim(KEY, REQUEST, SCOPE, ACTOR) for node in nodes))
    [claim] = [each for each in found if isinstance(each, RequestClaim)]
    assert claim.repeated
    await claim.answer(b"")


async def test_a_request_that_changed_nothing_leaves_nothing(keys: IdempotencyKeys, database: Database) -> None:
    await (await claimed(keys)).give_up(begun=False)
    assert await rows(database) == 0
    assert not (await claimed(keys)).repeated


async def test_a_request_that_was_interrupted_is_repeated_with_its_notes(keys: IdempotencyKeys, clock: Any) -> None:
    first = await claimed(keys)
    began = first.first_at
    assert await first.note({"/a": "/a (1)"})
    await first.give_up(begun=True)
    clock.advance(5)
    second = await claimed(keys)
    assert (second.repeated, second.notes, second.first_at) == (True, {"/a": "/a (1)"}, began)
    await second.note({"/b": "/b"})
    await second.give_up(begun=False)  # the first one had begun
    third = await claimed(keys)
    assert third.notes == {"/a": "/a (1)", "/b": "/b"}
    await third.answer(b"")


async def test_an_owner_that_vanished_on_another_machine_is_waited_for(
    keys: IdempotencyKeys, database: Database, clock: Any
) -> None:
    lost = await claimed(keys)
    await vanish(lost)
    clock.advance(LIFETIME.total_seconds() - 1)
    assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Running()
    clock.advance(1)
    taken_over = await claimed(keys)
    assert taken_over.repeated
    # The late one can change nothing any more.
    assert not await lost.is_owned()
    assert not await lost.note({"/a": "/b"})
    await lost.answer(b"late")
    assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Running()
    await taken_over.answer(b"done")
    assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Answered(b"done", SCOPE)


async def test_an_owner_that_was_suspended_goes_on_if_nobody_took_over(keys: IdempotencyKeys, clock: Any) -> None:
    claim = await claimed(keys)
    await vanish(claim)
    clock.advance(2 * LIFETIME.total_seconds())
    assert await claim.is_owned()
    assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Running()


async def test_an_owner_that_ended_on_this_machine_is_noticed_at_once(
    keys: IdempotencyKeys, database: Database, clock: Any
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        name = processes.name_of.__wrapped__(process.pid)
        await vanish(await claimed(keys))
        await database.execute(update(idempotency_keys).values(owner=f"{name}-0123"))
        assert await keys.claim(KEY, REQUEST, SCOPE, ACTOR) == Running()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert (await claimed(keys)).repeated


async def test_a_running_request_is_renewed(database: Database) -> None:
    claim = await claimed(IdempotencyKeys(database, timedelta(seconds=3)))
    [row] = await database.fetch(select(idempotency_keys))
    while (await database.fetch(select(idempotency_keys)))[0].owned_until <= row.owned_until:
        await asyncio.sleep(0.01)
    await claim.answer(b"")
    assert claim not in claim._rows._held


async def test_answers_of_one_actor_are_limited(
    keys: IdempotencyKeys, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "MAX_KEPT", 5)
    monkeypatch.setattr(idempotency, "_TRIM_EVERY", 3)

    async def answered(number: int, actor: str) -> None:
        claim = await keys.claim(f"{actor}{number:031}".encode(), REQUEST, SCOPE, actor)
        assert isinstance(claim, RequestClaim)
        await claim.answer(b"done")

    running = await keys.claim(KEY, REQUEST, SCOPE, "a")
    assert isinstance(running, RequestClaim)
    await answered(0, "b")
    for number in range(30):
        await answered(number, "a")
    rows = await database.fetch(select(idempotency_keys.c.actor, idempotency_keys.c.owner))
    assert sum(row.actor == "a" and not row.owner for row in rows) <= 5 + 3
    assert sum(row.actor == "b" for row in rows) == 1
    assert await keys.claim(KEY, REQUEST, SCOPE, "a") == Running()
    await running.give_up(begun=False)
