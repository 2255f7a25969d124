import asyncio
from typing import Any

import pytest

from portico.accounts.connections import Connections
from portico.model.entries import Entry
from portico.model.errors import Unavailable
from portico.store.database import Database
from portico.store.digests import FileDigests

DIGEST = b"d" * 32
MOMENT = "2026-11-14T09:30:00.000Z"


def file(etag: str | None = "1", size: int = 3, modified: str = MOMENT) -> Entry:
    return Entry("file", False, size, modified, etag=etag)


@pytest.fixture
def digests(database: Database, connections: Connections) -> FileDigests:
    return FileDigests(database)


async def found(digests: FileDigests, connection: str, files: dict[str, Entry]) -> dict[str, bytes]:
    known = await digests.find(connection, files)
    return {location: digest.sha256 for location, digest in known.items()}


async def test_a_digest_holds_for_the_file_that_was_hashed(digests: FileDigests) -> None:
    await digests.record("local", [("a", file(), DIGEST)])
    assert await found(digests, "local", {"a": file()}) == {"a": DIGEST}
    assert await found(digests, "local", {"a": file("2")}) == {}
    assert await found(digests, "local", {"b": file()}) == {}
    assert await found(digests, "other", {"a": file()}) == {}
    assert await found(digests, "local", {}) == {}


async def test_without_an_etag_the_caller_decides(digests: FileDigests) -> None:
    await digests.record("local", [("a", file(), DIGEST)])
    assert await digests.find("local", {"a": file(None)}) == {"a": (DIGEST, "1")}
    assert await found(digests, "local", {"a": file(None, size=4)}) == {}


async def test_the_next_digest_of_a_path_replaces_it(digests: FileDigests) -> None:
    await digests.record("local", [("a", file(), DIGEST)])
    await digests.record("local", [("a", file("2", 5, "x"), b"e" * 32)])
    assert await found(digests, "local", {"a": file()}) == {}
    assert await found(digests, "local", {"a": file("2")}) == {"a": b"e" * 32}
    assert await found(digests, "local", {"a": file(None, 5, "x")}) == {"a": b"e" * 32}


async def test_a_page_is_one_query(digests: FileDigests, queries: list[None]) -> None:
    await digests.record("local", [("7", file(), DIGEST)])
    queries.clear()
    page = {str(number): file() for number in range(5000)}
    assert await found(digests, "local", page) == {"7": DIGEST}
    assert len(queries) == 1


async def test_concurrent_uploads_are_recorded_together(
    digests: FileDigests, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    execute = database.execute

    async def spy(statement: Any, rows: Any) -> int:
        batches.append(len(rows))
        return await execute(statement, rows)

    monkeypatch.setattr(database, "execute", spy)
    await asyncio.gather(*(digests.record("local", [(str(n % 50), file(str(n)), DIGEST)]) for n in range(100)))
    assert sum(batches) in range(50, 101)
    assert len(batches) < 50
    page = {str(n): file(str(n + 50)) for n in range(50)}
    assert await found(digests, "local", page) == dict.fromkeys(page, DIGEST)


async def test_nobody_waits_for_those_that_come_later(digests: FileDigests) -> None:
    ended = False

    async def keep_coming() -> None:
        while not ended:
            await digests.record("local", [("other", file(), DIGEST)])

    others = [asyncio.create_task(keep_coming()) for _ in range(3)]
    await digests.record("local", [("a", file(), DIGEST)])
    ended = True
    await asyncio.gather(*others)


async def test_a_database_that_fails_costs_the_digest_only(
    digests: FileDigests, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> int:
        raise Unavailable("no", cause="gone")

    with monkeypatch.context() as patch:
        patch.setattr(database, "execute", fail)
        await digests.record("local", [("a", file(), DIGEST)])
    await digests.record("no such connection", [("b", file(), DIGEST)])
    await digests.record("local", [("c", file(etag=None), DIGEST)])
    await digests.record("local", [("d", file(etag="x" * 1025), DIGEST)])
    await digests.record("local", [("e", file(), DIGEST)])
    page = {name: file() for name in "abcde"}
    assert await found(digests, "local", page) == {"e": DIGEST}


async def test_a_cancelled_upload_does_not_stop_the_others(digests: FileDigests) -> None:
    first = asyncio.create_task(digests.record("local", [("a", file(), DIGEST)]))
    second = asyncio.create_task(digests.record("local", [("b", file(), DIGEST)]))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert "b" in await found(digests, "local", {"a": file(), "b": file()})


async def test_digests_go_with_their_connection(digests: FileDigests, connections: Connections) -> None:
    await digests.record("local", [("a", file(), DIGEST)])
    await connections.delete("local")
    assert await found(digests, "local", {"a": file()}) == {}
