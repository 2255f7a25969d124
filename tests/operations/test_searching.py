import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from itertools import product
from typing import cast

import pytest

from portico.drive.walk import DriveWalk
from portico.model.entries import Entry
from portico.model.paths import Path
from portico.operations.files.search import Criteria, SearchPage, search
from portico.runtime.fair_scheduling import FairScheduler

PIECES = ["", "a", "ab", "ba", "*", "**", "*a", "a*", "*b*", "a*b*a"]


class Walk:
    """Pages of a thousand entries, or fewer."""

    can_pause = True
    cursor = None

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.passed = 0

    @property
    def ended(self) -> bool:
        return self.passed == len(self._names)

    async def page(self, size: int) -> list[tuple[Path, Entry]]:
        names = self._names[self.passed : self.passed + size]
        self.passed += len(names)
        return [(Path((name,)), Entry(name, False)) for name in names]


@asynccontextmanager
async def no_wait(_: int) -> AsyncIterator[None]:
    yield


async def searched(names: list[str], name: str, *, match_case: bool = False) -> SearchPage:
    walk = cast("DriveWalk", Walk(names))
    return await search(walk, Criteria(name, match_case), len(names), no_wait, FairScheduler())


async def found(names: list[str], name: str, *, match_case: bool = False) -> list[str]:
    return [entry.name for _, entry in (await searched(names, name, match_case=match_case)).found]


async def test_patterns_mean_what_they_always_meant() -> None:
    names = ["".join(letters) for length in range(1, 6) for letters in product("ab", repeat=length)]
    for first, last in product(PIECES, PIECES):
        pattern = first + last
        if "*" in pattern:
            expected = [name for name in names if fnmatchcase(name, pattern)]
            assert await found(names, pattern) == expected, pattern


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("STRASSE", ["Hauptstraße", "strasse"]),
        ("*STRASSE*", ["Hauptstraße", "strasse"]),
        ("stra?e", ["straße"]),
        ("[A-C]?", ["b1", "C2"]),
        ("Ü*", ["u\N{COMBINING DIAERESIS}ber", "über"]),
    ],
)
async def test_case_and_composition_do_not_matter(wanted: str, names: list[str]) -> None:
    assert await found([*names, "other"], wanted) == names


async def test_case_can_matter() -> None:
    assert await found(["ab", "AB", "xAy"], "A", match_case=True) == ["AB", "xAy"]
    assert await found(["ab", "AB", "xAy"], "A*", match_case=True) == ["AB"]


@pytest.mark.parametrize("wanted", ["a" * 125 + "b", "*?" + "a" * 125 + "b*"])
async def test_a_slow_pattern_leaves_the_event_loop_to_others(wanted: str) -> None:
    searching = asyncio.create_task(searched(["a" * 250] * 10_000, wanted))
    rounds = 0
    while not searching.done():
        await asyncio.sleep(0)
        rounds += 1
    assert (await searching).found == []
    assert rounds >= 10
