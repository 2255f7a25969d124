"""Services that honor conditions, that ignore them, and that stop honoring them after they were tried."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import AlreadyExists, Changed, service_unavailable
from portico.model.paths import Path
from portico.providers.contract.uploads import WriteOptions
from portico.providers.objects import store
from portico.providers.objects.part_store import TRIALS_PREFIX, UPLOADS_PREFIX
from portico.providers.s3.provider import S3Provider
from portico.store import begun_rows
from portico.store.trash import DELETED, REPLACED

from ...conformance.actions import at, content, exists, put
from ...conformance.trash.actions import JournaledRecords, newest, trashed, with_trash
from ...conformance.trash.conftest import records  # noqa: F401
from ...recorded_drive import RecordedDrive
from ...servers.moto_s3 import moto_s3
from ...servers.proxy import Call, FaultProxy, Reply
from .conftest import Opener

_CONDITIONS = ("if-match", "if-none-match", "x-amz-copy-source-if-match")


class Killed(BaseException):
    """Nothing handles it."""


class Deaf(FaultProxy):
    """Before a service that may not hear conditions."""

    is_deaf = False

    async def _ask(self, call: Call, headers: list[tuple[str, str]]) -> Reply:
        if self.is_deaf:
            headers = [(name, value) for name, value in headers if name.lower() not in _CONDITIONS]
        return await super()._ask(call, headers)


@pytest.fixture
async def proxy() -> AsyncIterator[Deaf]:
    async with Deaf(int(moto_s3().rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
async def tried(opened: Opener) -> S3Provider:
    provider = opened(tries_conditions=True)
    await _try(provider)
    return provider


async def _try(provider: S3Provider) -> None:
    assert provider._service._conditions
    await provider._service._conditions.run()


@pytest.fixture
def drive(tried: S3Provider, records: JournaledRecords) -> RecordedDrive:  # noqa: F811
    return with_trash(tried, Path(), CursorSeal(b"k" * 32), records)


async def _interrupted(other: RecordedDrive, path: str) -> AsyncIterator[bytes]:
    """A body, during which another client stores a file at the path."""
    yield b"mine"
    await put(other, path, b"theirs")


async def test_service_that_refuses_is_relied_upon(
    tried: S3Provider, proxy: Deaf, leftovers: Callable[[], Awaitable[list[str]]]
) -> None:
    assert all(await tried._service.honored())
    assert await leftovers() == []


async def test_service_that_ignores_conditions_is_not(opened: Opener, proxy: Deaf) -> None:
    proxy.is_deaf = True
    provider = opened(tries_conditions=True)
    await _try(provider)
    assert not any(await provider._service.honored())
    assert await provider.look_lasts() == 0


async def test_change_goes_on_while_conditions_are_tried(opened: Opener, proxy: Deaf) -> None:
    provider = opened(tries_conditions=True)
    proxy.on(lambda call: "conditions-" in call.path, Reply(503), turns=100)
    await provider.make_folder(at("folder"))
    assert await provider.look_lasts() == 0


@pytest.mark.parametrize("heard", ["always", "until now", "never"])
async def test_file_that_another_client_stored_meanwhile_is_kept(
    drive: RecordedDrive, opened: Opener, proxy: Deaf, records: JournaledRecords, monkeypatch: pytest.MonkeyPatch, heard: str  # noqa: F811
) -> None:  # fmt: skip
    """A look counts for a moment only where nothing shows that a service has stopped honoring conditions."""
    if heard != "always":
        proxy.is_deaf = True
        monkeypatch.setattr("portico.providers.s3.provider.LOOK_SECONDS", 1e-6)
    provider = opened()
    if heard == "never":
        drive = with_trash(provider, Path(), drive._seal, records)
    other = RecordedDrive(provider, Path(), drive.rights, drive._seal)
    await put(drive, "old", b"old")
    for path in ("new", "old"):
        entry = await drive.write(at(path), _interrupted(other, path), "text/plain")
        assert entry.replaced
        assert await content(drive, path) == b"mine"
        assert (await newest(drive)).path == f"/{path}"
        await drive.restore(await newest(drive), OnConflict.REPLACE)
        assert await content(drive, path) == b"theirs"


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_what_must_not_be_replaced_stays(drive: RecordedDrive, proxy: Deaf, is_deaf: bool) -> None:
    proxy.is_deaf = is_deaf
    first = await put(drive, "a", b"a")
    for source in ("move", "copy"):
        await put(drive, source, b"source")
    with pytest.raises(AlreadyExists):
        await put(drive, "a", b"other", OnConflict.FAIL)
    with pytest.raises(AlreadyExists):
        await drive.move(at("move"), at("a"), OnConflict.FAIL)
    with pytest.raises(AlreadyExists):
        await drive.copy(at("copy"), at("a"), OnConflict.FAIL)
    assert (await put(drive, "a", b"other", OnConflict.RENAME)).name == "a (1)"
    await put(drive, "a", b"newer")
    with pytest.raises(Changed):
        await drive.write(at("a"), _interrupted(drive, "b"), "text/plain", options=WriteOptions(if_match=first.etag))
    assert await content(drive, "a") == b"newer"
    assert await exists(drive, "move")


async def test_move_and_delete_keep_what_they_replace(drive: RecordedDrive, proxy: Deaf) -> None:
    for path in ("a", "b"):
        await put(drive, path, path.encode())
    proxy.is_deaf = True
    await drive.move(at("a"), at("b"))
    await drive.delete(at("b"))
    kept = {await content(drive, await drive.restore(item, OnConflict.RENAME)) for item in await trashed(drive)}
    assert kept == {b"a", b"b"}


async def test_service_that_compares_with_another_etag_is_not_believed(drive: RecordedDrive, proxy: Deaf) -> None:
    """Swift does, for a file that was stored in parts."""
    await put(drive, "a", b"old")
    refused = Reply(412, body=b"<Error><Code>PreconditionFailed</Code></Error>")
    proxy.on(lambda call: call.path.endswith("/a") and "if-match" in call.headers, refused, turns=10)
    await put(drive, "a", b"new")
    assert await content(drive, "a") == b"new"
    await drive.delete(at("a"))
    assert [item.path for item in await trashed(drive)] == ["/a", "/a"]


@pytest.mark.parametrize("how", ["write", "delete"])
@pytest.mark.parametrize("ends", ["killed", "refused"])
async def test_version_that_was_replaced_before_its_note_is_found(
    drive: RecordedDrive,
    tried: S3Provider,
    records: JournaledRecords,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    ends: str,
) -> None:
    """On a bucket with versions, the note is written while the file is replaced or removed: the journal has the version."""
    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[tried.identity.rpartition("/")[2]].versioning_status = "Enabled"
    monkeypatch.setattr(begun_rows, "has_ended", lambda _: True)
    for path in ("a", "b"):
        await put(drive, path, b"old")
    await put(drive, "b", b"new")  # from now on, it is known that notes can be written
    error = Killed() if ends == "killed" else service_unavailable("down", 1)
    with monkeypatch.context() as patch:
        patch.setattr(tried.versions, "write_note", AsyncMock(side_effect=error))
        with pytest.raises(type(error)):
            await (put(drive, "a", b"new") if how == "write" else drive.delete(at("a")))
    assert not await exists(drive, "a") if how == "delete" else await content(drive, "a") == b"new"
    (left,) = await records.journal.left_open()
    reason = DELETED if how == "delete" else REPLACED
    assert await drive.trash.left_by(left, left.place.path, reason) == []
    kept = [record for record, _ in await drive.trash.note_left(left, left.place.path, reason)]
    await records.journal.settle(left, "unknown", kept=kept)
    assert [item.path for item in await trashed(drive)] == ["/a", "/b"]
    await drive.restore(await newest(drive), OnConflict.REPLACE)
    assert await content(drive, "a") == b"old"


async def test_sweep_removes_what_a_killed_trial_left(
    tried: S3Provider, client: Any, bucket: str, leftovers: Callable[[], Awaitable[list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    for key in (f"{TRIALS_PREFIX}1", f"{UPLOADS_PREFIX}upload/file"):
        await client.put_object(Bucket=bucket, Key=key, Body=b"")
    assert await tried.sweep() == 0
    monkeypatch.setattr(store, "_TRIAL", timedelta(hours=-1))
    assert await tried.sweep() == 1
    assert await leftovers() == [f"{UPLOADS_PREFIX}upload/file"]
