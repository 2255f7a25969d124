import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import func, select

from portico.model.errors import InvalidCursor
from portico.model.paths import Path, Place
from portico.store import journal_search as module
from portico.store.database import Database, insert_new
from portico.store.journal_search import Search, find, find_rows
from portico.store.tables import journal

from ..journals import lines_of

EMPTY = dict.fromkeys(journal.c.keys())


def place(path: str, connection: str = "c") -> Place:
    return Place(connection, Path.parse(path))


async def add(database: Database, *rows: dict[str, Any]) -> None:
    """Rows whose `line` is their number; those without one follow each other."""
    [(last,)] = await database.fetch(select(func.coalesce(func.max(journal.c.number), 0)))
    whole = []
    for number, row in enumerate(rows, last + 1):
        fixed = {"number": number, "at": number, "node": "one", "action": "upload", "outcome": "done"}
        whole.append(EMPTY | fixed | row)
        whole[-1]["line"] = f'{{"number":{whole[-1]["number"]}}}'
    await database.at_once(lambda connection: insert_new(connection, journal, whole))


async def numbers(database: Database, size: int = 100, **wanted: Any) -> list[int]:
    """Of all pages together, the newest first."""
    found: list[int] = []
    cursor = None
    while True:
        page = await find(database, Search(**wanted), size=size, cursor=cursor)
        assert len(page.lines) == size or page.cursor is None
        found += [line["number"] for line in page.lines]
        if (cursor := page.cursor) is None:
            return found


COLUMNS = {
    "user": "ann",
    "key": "k",
    "link": "l",
    "session": "s",
    "address": "192.0.2.1",
    "action": "a",
    "outcome": "o",
}


@pytest.mark.parametrize("name", COLUMNS)
async def test_each_column_is_searched(database: Database, name: str) -> None:
    await add(database, {}, {name: COLUMNS[name]}, {name: "other"}, {name: COLUMNS[name]})
    wanted: dict[str, Any] = {name: COLUMNS[name]}
    assert await numbers(database, **wanted) == await numbers(database, 1, **wanted) == [4, 2]


async def test_a_user_is_found_in_any_case(database: Database) -> None:
    await add(database, {"user": "straße"}, {"user": "strasse"})
    assert await numbers(database, user="STRASSE") == [2]


async def test_several_columns_have_to_fit(database: Database) -> None:
    await add(
        database,
        {"user": "ann", "action": "delete"},
        {"user": "bob", "action": "delete", "outcome": "forbidden"},
        {"user": "ann", "action": "move", "outcome": "forbidden"},
        {"user": "ann", "action": "delete", "outcome": "forbidden"},
    )
    assert await numbers(database, user="ann", action="delete") == [4, 1]
    assert await numbers(database, user="ann", action="delete", outcome="forbidden") == [4]
    assert await numbers(database, user="bob", action="move") == []


async def test_times_include_their_begin_and_not_their_end(database: Database) -> None:
    await add(database, *({"at": at} for at in (10, 20, 20, 30, 40)))
    assert await numbers(database, since=20) == [5, 4, 3, 2]
    assert await numbers(database, until=20) == [1]
    assert await numbers(database, since=20, until=40) == [4, 3, 2]
    assert await numbers(database, since=41) == await numbers(database, until=10) == []
    assert await numbers(database, since=40, until=20) == []


async def test_rows_that_waited_for_the_database_are_found_by_their_own_time(database: Database) -> None:
    await add(database, *({"at": at} for at in (10, 40, 20, 50, 30, 60, 15)))
    assert await numbers(database, 1, since=20, until=50) == [5, 3, 2]
    assert await numbers(database, since=15, until=21) == [7, 3]
    assert await numbers(database, 2, until=31) == [7, 5, 3, 1]


PLACES = (
    *({"place": path} for path in ("/", "/a", "/a/b", "/a/b/c.txt", "/a.txt", "/a0", "/A/b", "/ä/%", "/ä/_", "/ab/c")),
    {"place": "/x", "target": "/a/moved"},
    {"place": "/a/b", "target": "/a/b2"},
    {"place": "/a/b", "connection": "d"},
    {"place": "/x", "target": "/a/b", "to_connection": "d"},
    {"action": "sign-in"},
)


@pytest.fixture
async def places(database: Database) -> Database:
    for row in PLACES:
        there = {"connection": "c"} if "place" in row else {}
        await add(database, {**there, **({"to_connection": "c"} if "target" in row else {}), **row})
    return database


@pytest.mark.parametrize(
    ("path", "exactly", "below"),
    [
        ("/", [1], [14, *range(12, 0, -1)]),
        ("/a", [2], [12, 11, 4, 3, 2]),
        ("/a/b", [12, 3], [12, 4, 3]),
        ("/a/moved", [11], [11]),
        ("/ä", [], [9, 8]),
        ("/ä/%", [8], [8]),
        ("/none", [], []),
    ],
)
@pytest.mark.parametrize("newest", [0, 3, 10_000])
async def test_places_are_found_with_what_is_below(
    places: Database, monkeypatch: pytest.MonkeyPatch, path: str, exactly: list[int], below: list[int], newest: int
) -> None:
    monkeypatch.setattr(module, "_NEWEST", newest)
    for size in (1, 2, 100):
        assert await numbers(places, size, place=place(path)) == exactly
        assert await numbers(places, size, place=place(path), is_below=True) == below
    assert await numbers(places, place=place("/a/b", "d"), is_below=True) == [14, 13]
    assert await numbers(places, place=place("/a", "none"), is_below=True) == []


@pytest.mark.parametrize(("few", "few_places"), [(1000, 0), (0, 1000), (0, 0)])
@pytest.mark.parametrize("newest", [0, 20])
async def test_every_way_of_searching_finds_the_same(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int, few_places: int, newest: int
) -> None:
    monkeypatch.setattr(module, "_FEW", few)
    monkeypatch.setattr(module, "_FEW_PLACES", few_places)
    monkeypatch.setattr(module, "_NEWEST", newest)
    chosen = random.Random(7)
    rows: list[dict[str, Any]] = [
        {
            "at": number + chosen.randrange(9),
            "user": chosen.choice(("ann", "bob")),
            "action": chosen.choice(("upload", "move", "delete")),
            "connection": "c",
            "place": chosen.choice(("/a", "/a/b", "/a/b/c", "/ab")),
            "to_connection": "c",
            "target": chosen.choice((None, None, "/a/b/d", "/b")),
        }
        for number in range(200)
    ]
    await add(database, *rows)
    assert await numbers(database, 7) == [*range(200, 0, -1)]

    def fitting(*below: str, **equal: str) -> Sequence[int]:
        return [
            number
            for number, row in reversed([*enumerate(rows, 1)])
            if 50 <= row["at"] < 150
            and all(row[name] == value for name, value in equal.items())
            and (
                not below or any(str(row[name]).startswith(below) or row[name] == "/a" for name in ("place", "target"))
            )
        ]

    for equal in ({}, {"user": "ann"}, {"user": "ann", "action": "delete"}):
        wanted: dict[str, Any] = {"since": 50, "until": 150, **equal}
        assert await numbers(database, 7, **wanted) == fitting(**equal)
        assert await numbers(database, 7, **wanted, place=place("/a"), is_below=True) == fitting("/a/", **equal)


async def test_pages_skip_and_repeat_nothing_while_rows_are_added(database: Database) -> None:
    await add(database, *({"user": "ann"} for _ in range(5)))
    first = await find(database, Search(user="ann"), size=2)
    await add(database, {"user": "ann"})
    second = await find(database, Search(user="ann"), size=2, cursor=first.cursor)
    await add(database, {"user": "ann"})
    third = await find(database, Search(user="ann"), size=2, cursor=second.cursor)
    assert [line["number"] for page in (first, second, third) for line in page.lines] == [5, 4, 3, 2, 1]
    assert third.cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "٣", "9" * 30])
async def test_a_text_that_is_no_cursor_is_refused(database: Database, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await find(database, Search(), size=1, cursor=cursor)


async def test_an_empty_journal_has_no_lines(database: Database) -> None:
    assert await lines_of(database) == await lines_of(database, user="ann", since=1, until=2) == []


@pytest.mark.parametrize("newest", [1, 10_000])
async def test_any_of_several_places(database: Database, monkeypatch: pytest.MonkeyPatch, newest: int) -> None:
    """They may overlap, and a row may have two of them."""
    monkeypatch.setattr(module, "_NEWEST", newest)
    both = {"to_connection": "c", "target": "/a/b/moved"}
    await add(database, *({"connection": "c", "place": f"/a/b/{n}", **both} for n in range(6)))
    await add(database, {"connection": "d", "place": "/x"}, {"connection": "d", "place": "/y"})
    wanted: dict[str, Any] = {"place": place("/a"), "others": [place("/a/b"), place("/x", "d")], "is_below": True}
    for size in (1, 2, 100):
        assert await numbers(database, size, **wanted) == [7, 6, 5, 4, 3, 2, 1]
    rows = await find_rows(database, Search(**wanted), 2, before=7)
    assert [(row.number, row.place, row.target) for row in rows] == [
        (6, "/a/b/5", "/a/b/moved"),
        (5, "/a/b/4", "/a/b/moved"),
    ]
