"""Generated work of two actors, of whom one is rewound: the tree is as if that one had never acted."""

import pathlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from sqlalchemy import insert

from portico.providers.contract.provider import Provider
from portico.store.database import Database
from portico.store.tables import connections

from ..harness import Harness
from .worlds import World, acts, excused, location

MakeWorld = Callable[[Provider], Awaitable[World]]


@pytest.fixture
async def make_world(migrated_file: pathlib.Path, tmp_path: pathlib.Path) -> AsyncIterator[MakeWorld]:
    worlds: list[World] = []

    async def make(provider: Provider) -> World:
        file = tmp_path / f"{len(worlds)}.db"
        shutil.copy(migrated_file, file)
        database = Database(f"sqlite:///{file}")
        await database.execute(insert(connections), {"name": "c", "kind": "local", "options": "{}", "revision": 1})
        worlds.append(World(provider, database))
        return worlds[-1]

    yield make
    for world in worlds:
        await world.close()
        await world.database.close()


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
async def test_the_tree_is_as_if_one_had_never_acted(harness: Harness, make_world: MakeWorld, apart: bool) -> None:
    for seed in range(2 * harness.effort):
        both, alone = await make_world(await harness.open_other()), await make_world(await harness.open_other())
        work = acts(seed, 30, ("mallory", "bob"), apart=apart)
        differing = []
        log = []
        for act in work:
            outcome = await both.act(act)
            log.append((act, outcome))
            if act.actor == "bob" and outcome != await alone.act(act):
                differing.append({location(act.path), *([location(act.target)] if act.target else [])})
        await both.settled()
        rewind = await both.rewind(user="mallory")
        found, expected = await both.tree(), await alone.tree()
        may_differ = excused(both, rewind, differing)
        wrong = {
            path
            for path in found.keys() | expected.keys()
            if found.get(path, b"none") != expected.get(path, b"none") and not may_differ(path)
        }
        assert not wrong, (seed, wrong, found, expected, rewind.left_alone, log)
        if apart:
            assert all(each.location[1] == "mallory" for each in rewind.left_alone), (seed, rewind.left_alone, log)
