"""Resumable uploads when requests fail, responses are lost and earlier writers are late."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from portico.model.errors import Changed, InvalidPath, NotFound, PorticoError, ProviderUnavailable
from portico.providers.azure_files.provider import AzureFilesProvider
from portico.providers.azure_files.resumable import AzureFilesUpload
from portico.providers.contract.uploads import WriteOptions

from ...servers.azure_files import Answer, AzureFilesServer, Call, Fault, Lost, Share
from .actions import RANGE, at, busy, failing, get, lost, pieces, put

STAGING = (".portico~staging",)
TYPE = "text/x-own"


class Saved:
    """The last saved state of an upload."""

    def __init__(self, upload: AzureFilesUpload) -> None:
        self.upload = upload
        self.state, self.offset = upload.state, upload.offset

    async def save(self, *, last: bool = False) -> None:
        self.state, self.offset = self.upload.state, self.upload.offset

    async def resume(self, provider: AzureFilesProvider) -> AzureFilesUpload:
        self.upload = await provider.resume_upload(self.state)
        assert self.upload.offset == self.offset
        return self.upload

    async def send(self, content: bytes) -> None:
        await self.upload.append(pieces(content), self.save)


async def begun(
    provider: AzureFilesProvider, path: str = "f/file", size: int | None = None, *, replace: bool = True
) -> Saved:
    return Saved(await provider.begin_upload(at(path), TYPE, WriteOptions(at_most=size, replace=replace)))


def staged(share: Share) -> list[str]:
    return [node.name for _, node in share.folder(STAGING).ordered()]


@pytest.mark.parametrize("verb", ["PUT", "PUT range", "PUT properties", "PUT rename"])
@pytest.mark.parametrize("fault", ["busy", "lost", "lost-done"])
@pytest.mark.parametrize(
    "known", [pytest.param(True, marks=pytest.mark.thorough), False], ids=["size-known", "size-unknown"]
)
async def test_a_request_that_fails_once(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, verb: str, fault: str, known: bool
) -> None:
    content = os.urandom(RANGE + 10)
    row = await begun(provider, size=len(content) if known else None, replace=False)

    def break_again() -> None:
        server.fault = failing(verb, busy, 1) if fault == "busy" else lost(verb, done=fault == "lost-done")

    break_again()
    await row.send(content[:1000])
    break_again()
    await row.resume(provider)
    await row.send(content[1000:])
    break_again()
    entry = await (await row.resume(provider)).finish(row.save)
    assert (entry.size, entry.content_type) == (len(content), TYPE)
    assert entry.etag == (await provider.stat(at("f/file"))).etag
    assert await get(provider, "f/file") == content
    assert staged(share) == []


async def test_the_offset_ends_before_a_range_that_failed(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    content = os.urandom(5 * RANGE)
    row = await begun(provider)
    await row.send(content[:7])
    gap = f"bytes={7 + 2 * RANGE}-{7 + 3 * RANGE - 1}"

    async def one_range_fails(call: Call, _: Callable[[], Answer]) -> Answer | None:
        return busy() if call.headers.get("x-ms-range") == gap else None

    server.fault = one_range_fails
    with pytest.raises(ProviderUnavailable):
        await row.send(content[7:])
    server.fault = None
    assert row.offset <= 7 + 2 * RANGE
    await row.resume(provider)
    await row.send(content[row.offset :])
    await row.upload.finish(row.save)
    assert await get(provider, "f/file") == content
    assert staged(share) == []


async def test_a_late_writer_changes_nothing(provider: AzureFilesProvider, share: Share) -> None:
    content = os.urandom(3000)
    row = await begun(provider)
    await row.send(content[:1000])
    late = row.upload
    await row.resume(provider)
    await row.send(content[1000:2000])

    async def not_noticed(*, last: bool = False) -> None:
        """Nothing says that the upload was taken over."""

    with pytest.raises(NotFound):
        await late.append(pieces(bytes(70 * 2**20)), not_noticed)
    with pytest.raises(NotFound):
        await late.finish(not_noticed)
    await row.send(content[2000:])
    await row.upload.finish(row.save)
    assert await get(provider, "f/file") == content
    assert staged(share) == []


async def test_a_file_whose_creation_was_not_saved_is_replaced_by_another(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    row = await begun(provider)
    server.fault = failing("PUT range", busy)
    with pytest.raises(ProviderUnavailable):
        await row.send(b"lost")
    server.fault = None
    (former,) = staged(share)
    await row.resume(provider)
    await row.send(b"kept")
    assert former not in staged(share)
    assert len(staged(share)) == 1
    await row.upload.finish(row.save)
    assert await get(provider, "f/file") == b"kept"


async def test_a_take_over_that_was_cut_short(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    row = await begun(provider)
    await row.send(b"one ")
    for _ in range(3):  # the new name is saved, but the file still has the old one
        await row.resume(provider)
        server.fault = failing("PUT rename", busy)
        with pytest.raises(ProviderUnavailable):
            await row.send(b"lost")
        server.fault = None
    await row.resume(provider)
    await row.send(b"two")
    await row.upload.finish(row.save)
    assert await get(provider, "f/file") == b"one two"
    assert staged(share) == []


async def test_an_earlier_writer_renames_the_file_after_it_was_found(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    row = await begun(provider)
    await row.send(b"one ")
    (former,) = staged(share)
    await row.resume(provider)
    server.fault = failing("PUT rename", busy)
    with pytest.raises(ProviderUnavailable):
        await row.send(b"lost")
    server.fault = None
    await row.resume(provider)
    named = row.upload._state.names[-1]
    share.rename((*STAGING, former), (*STAGING, named), folder=False, replace=False)
    await row.send(b"two")
    await row.upload.finish(row.save)
    assert await get(provider, "f/file") == b"one two"


async def test_a_file_that_is_gone(provider: AzureFilesProvider, share: Share) -> None:
    row = await begun(provider)
    await row.send(b"1")
    share.delete_file((*STAGING, *staged(share)))
    with pytest.raises(NotFound):
        await row.resume(provider)


async def test_a_file_that_was_committed_before_the_process_died(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    row = await begun(provider, size=3, replace=False)
    await row.send(b"123")
    entry = await row.upload.finish(row.save)
    assert (await (await row.resume(provider)).finish(row.save)).etag == entry.etag
    await row.upload.abandon()
    assert await get(provider, "f/file") == b"123"
    await put(provider, "f/file", b"another")
    with pytest.raises(NotFound):
        await row.resume(provider)


async def test_another_spelling_that_appeared_meanwhile_is_not_replaced(provider: AzureFilesProvider) -> None:
    row = await begun(provider, "f/file")
    await row.send(b"123")
    await put(provider, "f/FILE", b"another")
    with pytest.raises(InvalidPath, match="case"):
        await row.upload.finish(row.save)
    assert await get(provider, "f/FILE") == b"another"


async def test_the_sweep_waits_until_any_upload_has_expired(provider: AzureFilesProvider, share: Share) -> None:
    row = await begun(provider)
    await row.send(b"123")
    (file,) = share.folder(STAGING).children.values()
    file.written = datetime.now(UTC) - timedelta(days=59)
    assert await provider.sweep() == 0
    file.written = datetime.now(UTC) - timedelta(days=61)
    assert await provider.sweep() == 1


async def test_only_the_expected_version_is_replaced(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    first = await put(provider, "file", b"first")
    second = await provider.write(at("file"), pieces(b"second"), TYPE, WriteOptions(if_match=first.etag))
    for path in ("file", "absent", "no/folder"):
        with pytest.raises(Changed):
            await provider.write(at(path), pieces(b"third"), TYPE, WriteOptions(if_match=first.etag))

    async def changed_meanwhile(call: Call, _: Callable[[], Answer]) -> Answer | None:
        if call.verb == "PUT range":
            share.file(("file",)).touch()
        return None

    server.fault = changed_meanwhile
    with pytest.raises(Changed):
        await provider.write(at("file"), pieces(b"third"), TYPE, WriteOptions(if_match=second.etag))
    assert await get(provider, "file") == b"second"
    assert staged(share) == []


@pytest.mark.parametrize(
    ("moment", "kept"),
    [
        (datetime(1601, 1, 1, tzinfo=UTC), "1601-01-01T00:00:00.000Z"),
        (datetime(2040, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC), "2040-02-29T23:59:59.999Z"),
        (datetime(1600, 12, 31, tzinfo=UTC), None),
    ],
)
async def test_modification_times(provider: AzureFilesProvider, moment: datetime, kept: str | None) -> None:
    entry = await provider.write(at("file"), pieces(b"1"), TYPE, WriteOptions(modified=moment))
    found = (await provider.stat(at("file"))).last_modified
    assert entry.last_modified == found
    assert found
    assert found == kept if kept else found > "2026"


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "known", [pytest.param(True, marks=pytest.mark.thorough), False], ids=["size-known", "size-unknown"]
)
async def test_a_process_that_dies_at_any_request(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, known: bool, done: bool
) -> None:
    """Its last request is carried out or not, and no other follows."""
    content = os.urandom(RANGE + 1000)
    for last in range(1, 100):
        path = f"kills/{last}"
        row = await begun(provider, path, len(content) if known else None, replace=False)
        server.calls.clear()
        server.fault = _dying(server, last, done=done)
        try:
            await row.send(content[:1000])
            await row.resume(provider)
            await row.send(content[1000:])
            await (await row.resume(provider)).finish(row.save)
        except PorticoError:
            pass
        died = len(server.calls) > last
        server.fault = None
        await row.resume(provider)
        await row.send(content[row.offset :])
        entry = await (await row.resume(provider)).finish(row.save)
        assert entry.etag == (await provider.stat(at(path))).etag
        assert await get(provider, path) == content
        assert staged(share) == []
        if not died:
            return
    raise AssertionError("there is no end to the requests")


def _dying(server: AzureFilesServer, last: int, *, done: bool) -> Fault:
    async def fault(_: Call, work: Callable[[], Answer]) -> Answer | None:
        if len(server.calls) < last:
            return None
        if len(server.calls) == last and done:
            work()
        raise Lost

    return fault
