from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import insert, text

from portico.model.paths import TOP, Path, Place
from portico.store.database import Database
from portico.store.tables import connections, trash
from portico.store.trash import REMOVING, RESTORING, Trashed, TrashRecords

from ..fixtures import Clock

FOLDER, ALL, OTHER = Place("c", Path.parse("/d")), Place("c", TOP), Place("k", TOP)


@pytest.fixture
async def records(database: Database, clock: Clock) -> TrashRecords:
    """Of items 0 to 9, in turn of two connections; those of the second are due by now, and the first of these the longest."""
    names = [{"name": name, "kind": "local", "options": "{}", "revision": 1} for name in "ck"]
    await database.execute(insert(connections), names)
    rows: list[dict[str, Any]] = []
    for number in range(10):
        at = clock.moment + number // 4
        folder, expired = "/d" if number % 4 == 0 else "/e", clock.moment - 10 + number // 5
        rows.append(
            {
                "id": f"{number:024x}",
                "connection": "ck"[number % 2],
                "path": f"{folder}/{number}",
                "is_folder": False,
                "reason": "deleted",
                "status": "kept",
                "deleted_at": at,
                "expires_at": expired if number % 2 else clock.moment + 10_000,
            }
        )
    await database.execute(insert(trash), rows)
    return TrashRecords(database)


def numbers(found: Sequence[Trashed]) -> list[int]:
    return [int(record.id, 16) for record in found]


async def pages(records: TrashRecords, *origins: Place) -> list[list[int]]:
    found, cursor = [], None
    while True:
        page, cursor = await records.page(origins, 3, cursor)
        found.append(numbers(page))
        if cursor is None:
            return found


async def test_pages_of_one_connection_and_of_several(records: TrashRecords) -> None:
    assert await pages(records, ALL) == [[8, 6, 4], [2, 0]]
    assert await pages(records, FOLDER) == [[8, 4, 0]]
    assert await pages(records, OTHER, FOLDER) == [[9, 8, 7], [5, 4, 3], [1, 0]]


async def test_all_that_is_due_is_found_page_by_page(records: TrashRecords, clock: Clock) -> None:
    """Also what is not removed in the meantime. A removal that is interrupted is due at once."""
    first = await records.due("k", 2)
    assert numbers(first) == [1, 3]
    assert numbers(await records.due("k", 2, first[-1])) == [5, 7]
    assert await records.due("c", 2) == []
    for number, status in ((2, REMOVING), (4, RESTORING)):
        [record] = [each for each in (await records.page([ALL], 9))[0] if numbers([each]) == [number]]
        assert await records.claim(record, status)
    assert numbers(await records.due("c", 2)) == [2]


async def test_no_query_reads_all_of_the_trash(
    records: TrashRecords, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database.dialect != "sqlite":
        pytest.skip("PostgreSQL reads small tables without an index")
    asked: list[str] = []
    fetch = database.fetch

    async def noted(query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(query.compile(compile_kwargs={"literal_binds": True})))
        return await fetch(query, *arguments, **options)

    monkeypatch.setattr(database, "fetch", noted)
    await pages(records, OTHER, FOLDER)
    await records.due("k", 2, (await records.due("k", 2))[-1])
    plans = [row.detail for query in asked for row in await fetch(text(f"EXPLAIN QUERY PLAN {query}"))]
    assert len(plans) == len(asked) > 2
    assert all("USING INDEX ix_trash_" in plan for plan in plans), plans
