import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from portico.runtime import processes
from portico.store.database import Database
from portico.store.leases import LIFETIME, Leases
from portico.store.running_nodes import running_node, running_nodes
from portico.store.tables import leases


@pytest.fixture
def one(database: Database) -> Leases:
    return Leases(database, "one")


@pytest.fixture
def two(database: Database) -> Leases:
    return Leases(database, "two")


async def test_one_owner_at_a_time(one: Leases, two: Leases) -> None:
    async with one.held("sweep") as mine, two.held("sweep") as theirs, two.held("other") as other:
        assert mine
        assert theirs is None
        assert other
    async with two.held("sweep") as theirs:
        assert theirs
        assert theirs.owner != mine.owner


async def test_of_many_one_gets_it(database: Database) -> None:
    found = await asyncio.gather(*(Leases(database, str(node)).acquire("sweep") for node in range(10)))
    [lease] = [each for each in found if each]
    await lease.release()


async def test_a_lease_ends_with_its_owner_who_is_fenced_off(one: Leases, two: Leases, clock: Any) -> None:
    lost = await one.acquire("sweep")
    assert lost
    await lost.let_go()  # as if the process had ended
    assert await two.acquire("sweep") is None
    clock.advance(LIFETIME.total_seconds())
    taken_over = await two.acquire("sweep")
    assert taken_over
    assert taken_over.owner != lost.owner
    await lost.release()  # of the late owner: without effect
    assert await one.acquire("sweep") is None
    await taken_over.release()


async def test_a_lease_of_a_process_that_ended_on_this_machine_ends_at_once(
    one: Leases, two: Leases, database: Database
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        name = processes.name_of.__wrapped__(process.pid)
        lost = await one.acquire("sweep")
        assert lost
        await lost.let_go()
        await database.execute(update(leases).values(owner=f"{name}-0123@a/b"))
        assert await two.acquire("sweep") is None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        taken_over = await two.acquire("sweep")
        assert taken_over
        assert taken_over.owner != lost.owner
        await taken_over.release()


async def test_a_lease_is_renewed(database: Database) -> None:
    async with Leases(database, "one", timedelta(seconds=3)).held("sweep"):
        [row] = await database.fetch(select(leases))
        while (await database.fetch(select(leases)))[0].owned_until <= row.owned_until:
            await asyncio.sleep(0.01)
        assert await Leases(database, "two").acquire("sweep") is None


async def test_the_owner_is_named(one: Leases, database: Database) -> None:
    async with one.held("sweep"):
        [row] = await database.fetch(select(leases))
        assert row.owner.endswith("@one")
        await database.execute(update(leases).values(owned_until=0))


async def test_leases_of_owners_that_vanished_are_removed_an_hour_later(
    one: Leases, database: Database, clock: Any
) -> None:
    lost = await one.acquire("name:lost")
    assert lost
    await lost.let_go()
    clock.advance(LIFETIME.total_seconds() + 3599)
    async with one.held("sweep"):
        await one.sweep()
        assert len(await database.fetch(select(leases))) == 2
        clock.advance(1)
        await one.sweep()
        assert [row.name for row in await database.fetch(select(leases))] == ["sweep"]


async def test_a_node_is_seen_as_long_as_it_runs(database: Database, clock: Any) -> None:
    async with running_node(database, "one"):
        assert await running_nodes(database) == ["one"]
    assert await database.fetch(select(leases)) == []
    async with running_node(database, "one"), running_node(database, "one"), running_node(database, "two"):
        assert await running_nodes(database) == ["one", "two"]
        clock.advance(299)
        assert await running_nodes(database) == ["one", "two"]
        await database.execute(update(leases).values(owner="elsewhere-1-1-0123@three"))
        assert await running_nodes(database) == ["three"]
        clock.advance(1)
        assert await running_nodes(database) == []


async def test_a_node_that_was_killed_here_does_not_run(database: Database) -> None:
    async with running_node(database, "one"):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            name = processes.name_of.__wrapped__(process.pid)
            await database.execute(update(leases).values(owner=f"{name}-0123@one"))
            assert await running_nodes(database) == ["one"]
            process.kill()
        assert await running_nodes(database) == []
