from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from sqlalchemy import insert, update

from portico.store import history
from portico.store.database import AnyRow, Database
from portico.store.history import (
    ActorFilter,
    changes_after,
    changes_by,
    changes_since,
    last_number,
    made_with,
    removals,
    user_of,
)
from portico.store.tables import journal

ROWS: list[dict[str, Any]] = [
    {"user": "ann"},
    {"user": "ben", "key": "k1"},
    {"user": "ann", "key": "k2"},
    {"user": "ann", "link": "l1"},
    {"session": "s1"},
    {"user": "ann", "action": "sign-in", "place": None},
    {"user": "ann"},
]
"""In the order of their numbers, from 1; their times are ten times that."""


@pytest.fixture
async def written(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr(history, "_PAGE", 2)
    common: dict[str, Any] = dict.fromkeys(journal.c.keys()) | {
        "node": "n",
        "outcome": "done",
        "line": "{}",
        "place": "/f",
    }
    rows = [
        common | {"number": number, "at": 10 * number, "action": "upload"} | row for number, row in enumerate(ROWS, 1)
    ]
    await database.execute(insert(journal), rows)
    return database


async def numbers(pages: AsyncIterator[Sequence[AnyRow]]) -> list[int]:
    return [row.number async for page in pages for row in page]


async def test_the_changes_of_an_actor(written: Database) -> None:
    async def found(since: int = 0, until: int | None = None, **actor: Any) -> list[int]:
        rows = await changes_by(written, ActorFilter(**actor), ["upload"], since, until)
        return [row.number for row in rows]

    assert await found(user="Ann") == [7, 3, 1], "not those of guests"
    assert await found(user="ann", since=30) == [7, 3]
    assert await found(user="ann", until=70) == [3, 1]
    assert await found(key="k2") == [3]
    assert await found(link="l1") == [4]
    assert await found(session="s1") == [5]
    assert await found(user="Ann", with_links=True) == [7, 4, 3, 1]
    both = ActorFilter(key="k1", also=(ActorFilter(link="l1"),))
    assert await found(key="k1", also=both.also) == [4, 2]
    assert await numbers(changes_after(written, 2, 1000, both, ["upload"], 0, None)) == [7, 5, 3]
    assert await found(key="k%") == await found(user="%") == []
    assert await user_of(written, ActorFilter(link="l1")) == "ann"


async def test_the_changes_of_all_others(written: Database) -> None:
    ann = ActorFilter(user="ann")
    assert await numbers(changes_after(written, 2, 1000, ann, ["upload"], 0, None)) == [5, 4, 2]
    assert await numbers(changes_after(written, 2, 1000, ann, ["upload"], 50, None)) == [5, 4, 3, 2]
    assert await numbers(changes_after(written, 2, 1000, ann, ["upload"], 0, 70)) == [7, 5, 4, 2]
    assert await numbers(changes_after(written, 7, 35, ActorFilter(user="ben"), ["upload"], 0, None)) == [7, 5, 4]
    assert await numbers(changes_since(written, 3, ActorFilter(session="s1"), ["upload"])) == [7, 4]
    assert await last_number(written) == 7


async def test_very_many_unused_links_hide_no_used_one(written: Database) -> None:
    decoys = [f"d{number:04}" for number in range(1200)]
    common: dict[str, Any] = dict.fromkeys(journal.c.keys()) | {
        "at": 1000,
        "node": "n",
        "outcome": "done",
        "line": "{}",
    }
    rows = [
        *({"action": "share.add", "session": "s", "link": link} for link in [*decoys, "used"]),
        {"action": "upload", "link": "used"},
        {"action": "upload", "key": "z"},
        {"action": "key.add", "session": "s", "key": "z", "outcome": "forbidden"},
    ]
    await written.execute(insert(journal), [common | {"number": 10 + n} | row for n, row in enumerate(rows)])
    assert await made_with(written, ActorFilter(session="s"), ["upload"], 0) == {ActorFilter(link="used")}
    assert await made_with(written, ActorFilter(session="s"), ["upload"], 1001) == set()


async def test_only_rows_of_a_time_are_looked_at(written: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many older ones there are."""
    asked: list[str] = []
    fetch = written.fetch

    async def noted(query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(query.compile(compile_kwargs={"literal_binds": True})))
        return await fetch(query, *arguments, **options)

    monkeypatch.setattr(written, "fetch", noted)
    await written.execute(update(journal).values(kept="k"))
    assert [(each.minute, each.files) for each in await removals(written, 0, 7, 60)] == [(0, 1)]
    assert "journal.number > 5" in asked[-1]
    asked.clear()
    assert await removals(written, 0, 7, 80) == []
    assert len(asked) == 1


async def test_of_an_empty_journal(database: Database) -> None:
    assert await last_number(database) == 0
