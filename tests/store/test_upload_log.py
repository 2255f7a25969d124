"""Records of uploads: there before the upload begins, renewed while it runs, found when its process has died."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import structlog
from sqlalchemy import select

from portico.accounts.connections import Connections
from portico.drive.connection_pool import ConnectionPool
from portico.drive.cursors import CursorSeal
from portico.drive.instrumented import InstrumentedProvider
from portico.model.errors import NotFound, PorticoError, ProviderUnavailable, Unavailable
from portico.observability.metrics import Metrics
from portico.operations.uploads.expiry import sweep_uploads
from portico.providers.local.provider import LocalProvider
from portico.store.database import AnyRow, Database
from portico.store.encrypted_columns import Sealed
from portico.store.leases import Leases
from portico.store.tables import uploads
from portico.store.upload_log import UploadLogs
from portico.store.uploads import Uploads

from ..fixtures import Clock

DAY = 24 * 3600
SEALED = Sealed(bytes(32))


@pytest.fixture
def logs(database: Database, connections: Connections) -> UploadLogs:
    return UploadLogs(database, SEALED, "node")


async def rows(database: Database) -> list[AnyRow]:
    return list(await database.fetch(select(uploads)))


async def expired(database: Database) -> list[bytes]:
    found = Uploads(database, SEALED, "node")
    records = [await found.get(upload_id) for _, upload_id in await found.expired()]
    return [record.state for record in records if record and record.state]


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
    assert await expired(database) == []
    clock.advance(1)
    assert await expired(database) == [b"state"]


async def test_the_last_state_is_recorded_and_renewed(logs: UploadLogs, database: Database, clock: Clock) -> None:
    record = await logs.of("local").begin("file", b"first")
    record.update(b"second")
    record.update(b"third")
    await record.leave()
    often = UploadLogs(database, SEALED, "node", timedelta(milliseconds=10))
    renewed = await often.of("local").begin("other", b"other")
    clock.advance(DAY)

    async def is_renewed() -> bool:
        return await expired(database) == [b"third"]

    await until(is_renewed)
    await renewed.end()


async def test_a_state_that_could_not_be_written_is_written_later(
    logs: UploadLogs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = UploadLogs(database, SEALED, "node", timedelta(milliseconds=10))
    record = await logs.of("local").begin("file", b"first")
    with monkeypatch.context() as down:
        refused = asyncio.Event()

        async def refuse(*_: Any, **__: Any) -> int:
            refused.set()
            raise Unavailable("Not now.", retry_after=1)

        down.setattr(database, "execute", refuse)
        record.update(b"second")
        await refused.wait()
    (row,) = await rows(database)

    async def is_written() -> bool:
        (now,) = await rows(database)
        return bool(now.state != row.state)

    await until(is_written)
    await record.end()


async def swept(database: Database, connections: Connections) -> None:
    pool = ConnectionPool(connections, CursorSeal(bytes(32)), Metrics(), Leases(database, "node"))
    await sweep_uploads(Uploads(database, SEALED, "node"), pool)
    await pool.close()


async def test_a_record_of_another_key_is_removed(connections: Connections, database: Database, clock: Clock) -> None:
    await (await UploadLogs(database, Sealed(b"x" * 32), "node").of("local").begin("file", b"state")).leave()
    clock.advance(DAY)
    await swept(database, connections)
    assert await rows(database) == []


async def test_a_sweep_abandons_what_has_expired(
    connections: Connections, database: Database, logs: UploadLogs, clock: Clock, monkeypatch: pytest.MonkeyPatch
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

    async def resume(_: LocalProvider, state: bytes, **__: Any) -> Upload:
        return Upload(state)

    monkeypatch.setattr(InstrumentedProvider, "resume_upload", resume)
    for state in (b"one", b"two"):
        await (await logs.of("local").begin("file", state)).leave()
    running = await logs.of("local").begin("file", b"running")
    await swept(database, connections)
    assert abandoned == []
    clock.advance(DAY)
    running.update(b"still running")

    async def is_renewed() -> bool:
        return len(await expired(database)) == 2

    await until(is_renewed)
    await swept(database, connections)
    assert abandoned == [b"two"]
    clock.advance(60)
    await swept(database, connections)
    assert abandoned == [b"two", b"one"]
    assert len(await rows(database)) == 1
    await running.end()


async def test_why_uploads_are_not_swept_is_logged_once(
    connections: Connections, database: Database, logs: UploadLogs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise ProviderUnavailable("Not now.", retry_after=1)

    monkeypatch.setattr(InstrumentedProvider, "resume_upload", fail)
    for state in (b"one", b"two"):
        await (await logs.of("local").begin("file", state)).leave()
    clock.advance(DAY)
    pool = ConnectionPool(connections, CursorSeal(bytes(32)), Metrics(), Leases(database, "node"))
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            await sweep_uploads(Uploads(database, SEALED, "node"), pool)
            clock.advance(60)
    await pool.close()
    assert [line["event"] for line in lines] == ["upload-not-swept"]


async def test_a_connection_that_is_deleted_takes_its_records_along(
    connections: Connections, database: Database, logs: UploadLogs
) -> None:
    record = await logs.of("local").begin("file", b"state")
    await connections.delete("local")
    assert await rows(database) == []
    await record.end()
    with pytest.raises(NotFound):
        await connections.get("local")
