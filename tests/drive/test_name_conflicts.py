"""A free name beside one that is taken."""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import select

from portico.drive.free_names import NameClaims, free_name
from portico.model.errors import AlreadyExists, ProviderUnavailable
from portico.model.paths import Path
from portico.store.database import Database
from portico.store.leases import Leases
from portico.store.tables import leases

SCAN = Path(("docs", "scan.pdf"))


def in_team(path: Path) -> Path:
    return path.under(Path(("team",)))


def scans(numbers: Iterable[int]) -> set[str]:
    return {f"scan ({number}).pdf" if number else "scan.pdf" for number in numbers}


class Store:
    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.asked: list[str] = []

    async def is_free(self, path: Path) -> bool:
        self.asked.append(path.name)
        await asyncio.sleep(0)
        return path.name not in self.names


@pytest.fixture
def claims() -> NameClaims:
    return NameClaims("local")


async def chosen(claims: NameClaims, store: Store, path: Path = SCAN) -> str:
    async with free_name(claims, in_team, path, store.is_free) as free:
        return free.path.name


@pytest.mark.parametrize("count", [*range(40), 299, 300, 512, 513, 999, 1000, 5000, 2**17])
async def test_the_lowest_free_number_takes_few_questions(claims: NameClaims, count: int) -> None:
    store = Store(scans(range(count)))
    assert {await chosen(claims, store)} == scans([count])
    assert len(store.asked) == len(set(store.asked)) <= 5 + 2 * count.bit_length()


async def test_a_name_that_was_freed_among_the_first_is_found(claims: NameClaims) -> None:
    for freed in range(4):
        assert {await chosen(claims, Store(scans({*range(300)} - {freed})))} == scans([freed])


async def test_with_gaps_a_free_name_is_found(claims: NameClaims) -> None:
    taken = scans(number for number in range(2000) if number % 7)
    taken |= scans(range(64))
    store = Store(taken)
    assert await chosen(claims, store) not in taken
    assert len(store.asked) <= 30


@pytest.mark.parametrize("count", [0, 1, 5, 300])
async def test_many_at_once_get_names_of_their_own(claims: NameClaims, count: int) -> None:
    """Near each other, and with few questions each: what others look at does not drive one far off."""
    store = Store(scans(range(count)))
    async with AsyncExitStack() as stack:
        found = await asyncio.gather(
            *(stack.enter_async_context(free_name(claims, in_team, SCAN, store.is_free)) for _ in range(50))
        )
        assert len(claims._claims) == 50
    names = {free.path.name for free in found}
    assert (len(names), names & store.names) == (50, set())
    assert names <= scans(range(count, count + 200))
    assert len(store.asked) <= 50 * 25
    assert not claims._claims


async def test_nothing_stays_claimed_when_the_store_fails(claims: NameClaims) -> None:
    calls = 0

    async def fails_later(_: Path) -> bool:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise ProviderUnavailable("gone")
        return calls == 7

    with pytest.raises(ProviderUnavailable):
        async with free_name(claims, in_team, SCAN, fails_later):
            raise AssertionError
    assert not claims._claims


async def test_too_many_are_reported(claims: NameClaims) -> None:
    async def never(_: Path) -> bool:
        return False

    with pytest.raises(AlreadyExists):
        async with free_name(claims, in_team, SCAN, never):
            raise AssertionError


async def test_others_follow_the_name_that_was_found(claims: NameClaims) -> None:
    async with free_name(claims, in_team, SCAN, Store(scans(range(300))).is_free) as free:
        assert next(free.others).name == "scan (301).pdf"


async def test_two_nodes_never_claim_the_same_name(database: Database) -> None:
    store = Store(scans(range(3)))
    nodes = [NameClaims("bucket", Leases(database, node)) for node in ("one", "two")]
    async with AsyncExitStack() as stack:
        names = await asyncio.gather(
            *(stack.enter_async_context(free_name(claims, in_team, SCAN, store.is_free)) for claims in nodes * 10)
        )
        assert len({free.path.name for free in names}) == 20
    assert await database.fetch(select(leases)) == []
    assert await chosen(nodes[0], store) == await chosen(nodes[1], store)


async def test_a_name_that_only_this_node_claims_costs_no_lease(database: Database) -> None:
    claims = NameClaims("bucket", Leases(database, "one"))
    async with free_name(claims, in_team, SCAN, Store(set()).is_free, everywhere=False):
        assert await database.fetch(select(leases)) == []


@pytest.mark.parametrize("stem", ["n" * 251, "ü" * 125 + "n", "🙂" * 62 + "nnn"])
async def test_a_long_name_becomes_shorter_so_that_the_number_fits(claims: NameClaims, stem: str) -> None:
    name = f"{stem}.txt"
    assert len(name.encode()) == 255
    found = await chosen(claims, Store({name}), Path((name,)))
    assert found.endswith(" (1).txt")
    assert stem.startswith(found.removesuffix(" (1).txt"))
    assert 251 < len(found.encode()) <= 255
