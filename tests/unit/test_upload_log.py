"""Records of uploads: there before the upload begins, renewed while it runs, found when its process has died."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from portico.accounts.connections import Connections
from portico.cursors import CursorSeal
from portico.drives import Drives
from portico.errors import NotFound, PorticoError, ProviderUnavailable
from portico.metrics import Metrics
from portico.providers.local import LocalProvider
from portico.store import upload_log
from portico.store.database import AnyRow, Database
from portico.store.leases import Leases
from portico.store.sealed import Sealed
from portico.store.tables import uploads
from portico.store.upload_log import UploadLogs

from .conftest import Clock

DAY = 24 * 3600


@pytest.fixture
def logs(database: Database, connections: Connections) -> UploadLogs:
    return UploadLogs(database, Sealed(bytes(32)), "node")


async def rows(database: Database) -> list[AnyRow]:
    return list(await database.fetch(select(uploads)))


async def expired(logs: UploadLogs, connection: str = "local") -> list[bytes]:
    return [upload.state async for upload in logs.expired(connection)]


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_a_record_lives_as_long_as_its_upload(logs: UploadLogs, database: Database) -> None:
    record = await logs.of("local").begin("folder/file", b"first state")
    (row,) = await rows(database)
    assert (row.kind, row.connection, row.path, row.user_id) == ("plain", "local", "folder/file", None)
    assert b"first" not in row.state
    await record.end()
    assert await rows(database) == []


async def test_an_upload_of_a_process_that_died_is_found_a_day_later(
    logs: UploadLogs, database: Database, clock: Clock
) -> None:
    record = await logs.of("local").begin("file", b"state")
    await record.leave()
    clock.advance(DAY - 1)
    assert await expired(logs) == []
    clock.advance(1)
    assert await expired(logs, "another") == []
    assert await expired(logs) == [b"state"]
    async for upload in logs.expired("local"):
        await logs.remove(upload)
    assert await rows(database) == []


async def test_the_last_state_is_recorded_and_renewed(
    logs: UploadLogs, database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await logs.of("local").begin("file", b"first")
    (before,) = await rows(database)
    record.update(b"second")

    async def is_written() -> bool:
        return bool((await rows(database))[0].state != before.state)

    await until(is_written)
    await record.leave()
    monkeypatch.setattr(upload_log, "_RENEWAL", timedelta(seconds=0.01))
    renewed = await logs.of("local").begin("other", b"other")
    clock.advance(DAY)

    async def is_renewed() -> bool:
        return await expired(logs) == [b"second"]

    await until(is_renewed)
    await renewed.end()


async def test_a_record_that_was_renewed_meanwhile_stays(
    logs: UploadLogs, database: Database, clock: Clock
) -> None:
    record = await logs.of("local").begin("file", b"state")
    clock.advance(DAY)
    (found,) = [upload async for upload in logs.expired("local")]
    record.update(b"it is slow, but alive")

    async def is_renewed() -> bool:
        return await expired(logs) == []

    await until(is_renewed)
    await logs.remove(found)
    assert len(await rows(database)) == 1
    await record.end()


async def test_a_record_of_another_key_is_removed(logs: UploadLogs, database: Database, clock: Clock) -> None:
    await (await UploadLogs(database, Sealed(b"x" * 32), "node").of("local").begin("file", b"state")).leave()
    clock.advance(DAY)
    assert await expired(logs) == []
    assert await rows(database) == []


async def test_a_sweep_abandons_what_has_expired(
    connections: Connections,
    database: Database,
    logs: UploadLogs,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    abandoned: list[bytes] = []
    errors: list[PorticoError] = [ProviderUnavailable("Not now.", retry_after=1)]

    class Upload:
        def __init__(self, state: bytes) -> None:
            self._state = state

        async def abandon(self) -> None:
            if self._state == b"one" and errors:
                raise errors.pop()
            abandoned.append(self._state)

    async def resume(_: LocalProvider, state: bytes) -> Upload:
        return Upload(state)

    async def sweep(_: LocalProvider) -> int:
        return 0

    monkeypatch.setattr(LocalProvider, "resume_upload", resume)
    monkeypatch.setattr(LocalProvider, "sweep", sweep)
    for state in (b"one", b"two"):
        await (await logs.of("local").begin("file", state)).leave()
    running = await logs.of("local").begin("file", b"running")
    drives = Drives(connections, CursorSeal(bytes(32)), Metrics(), Leases(database, "node"), upload_logs=logs)
    await drives.sweep()
    assert abandoned == []
    clock.advance(DAY)
    running.update(b"still running")

    async def is_renewed() -> bool:
        return len(await expired(logs)) == 2

    await until(is_renewed)
    await drives.sweep()
    assert abandoned == [b"two"]
    await drives.sweep()
    assert abandoned == [b"two", b"one"]
    assert len(await rows(database)) == 1
    await running.end()
    await drives.close()


async def test_a_connection_that_is_deleted_takes_its_records_along(
    connections: Connections, database: Database, logs: UploadLogs
) -> None:
    record = await logs.of("local").begin("file", b"state")
    await connections.delete("local")
    assert await rows(database) == []
    await record.end()
    with pytest.raises(NotFound):
        await connections.get("local")
