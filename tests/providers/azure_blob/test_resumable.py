"""Resumable uploads when requests fail, responses are lost and blocks are dropped; conditions and times."""

from datetime import UTC, datetime
from itertools import count

import pytest

from portico.model.errors import AlreadyExists, Changed, NotFound, PorticoError, ProviderFailed, ProviderUnavailable
from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.contract.uploads import ResumableUpload, WriteOptions
from portico.providers.multipart.parts import UploadPart

from ...conformance.actions import noise
from ...servers.proxy import Call, FaultProxy, Lost, Reply, Reset
from .actions import PART, at, block, commit, content, make_blob, pieces, put, walk, whole_put

BUSY = Reply(503, {"x-ms-error-code": "ServerBusy"})
DROPPED = Reply(400, {"x-ms-error-code": "InvalidBlockList"})
MIB = 2**20
LARGE = noise(2 * PART + 3)
MOMENT = datetime(2019, 5, 4, 3, 2, 1, 123_456, tzinfo=UTC)


class Saved:
    """The last saved state of an upload."""

    def __init__(self, upload: ResumableUpload) -> None:
        self.upload = upload
        self.state, self.offset = upload.state, upload.offset

    async def save(self, *, last: bool = False) -> None:
        self.state, self.offset = self.upload.state, self.upload.offset

    async def resume(self, provider: AzureBlobProvider) -> ResumableUpload:
        self.upload = await provider.resume_upload(self.state)
        assert self.upload.offset == self.offset
        return self.upload

    async def send(self, content: bytes) -> None:
        await self.upload.append(pieces(content), self.save)


async def begun(provider: AzureBlobProvider, *, replace: bool = True, renamed: bool = False) -> Saved:
    upload = await provider.begin_upload(at("f/file"), "text/x-own", WriteOptions(replace=replace), renamed=renamed)
    return Saved(upload)


async def nothing_is_left(provider: AzureBlobProvider) -> bool:
    return not await provider.holds_keys(".portico~uploads/")


def large_block(call: Call) -> bool:
    return block(call) and int(call.headers["content-length"]) > MIB


@pytest.mark.parametrize("renamed", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["direct", "renamed"])
@pytest.mark.parametrize(
    ("match", "fault", "turns"),
    [
        (block, BUSY, 2),
        (block, Lost(), 1),
        (large_block, Reset(MIB), 1),
        (commit, BUSY, 2),
        (commit, Lost(), 1),
        (commit, Lost(), 4),
        (whole_put, Lost(), 1),
    ],
    ids=["block-busy", "block-lost", "block-reset", "busy", "lost-once", "lost", "tail-lost"],
)
async def test_a_request_that_fails_for_a_while(
    provider: AzureBlobProvider, proxy: FaultProxy, match: object, fault: object, turns: int, renamed: bool
) -> None:
    row = await begun(provider, replace=False, renamed=renamed)
    proxy.on(match, fault, turns=turns)  # type: ignore[arg-type]
    await row.send(LARGE[: PART + 5])
    await row.resume(provider)
    await row.send(LARGE[PART + 5 :])
    others = (at(f"f/file ({number})") for number in count(1)) if renamed else None
    entry = await (await row.resume(provider)).finish(row.save, alternatives=others)
    known = await provider.stat(at("f/file"))
    assert (entry.size, entry.etag, entry.content_type) == (len(LARGE), known.etag, "text/x-own")
    assert await content(provider, "f/file") == LARGE
    assert await nothing_is_left(provider)


async def test_every_block_is_verified_by_the_service(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    row = await begun(provider)
    await row.send(LARGE)
    await row.upload.finish(row.save)
    sent = [call for call in proxy.calls if block(call) or whole_put(call)]
    assert len(sent) > 2
    assert all(call.headers["content-md5"] for call in sent)
    assert len({len(call.query["blockid"]) for call in sent if block(call)}) == 1


@pytest.mark.parametrize("match", [large_block, whole_put], ids=["block", "tail"])
async def test_damaged_bytes_are_refused(
    provider: AzureBlobProvider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, match: object
) -> None:
    async def wrong(_: UploadPart) -> str:
        return "1B2M2Y8AsgTpgAmY7PhCfg=="  # of nothing

    row = await begun(provider)
    monkeypatch.setattr(UploadPart, "md5", wrong)
    with pytest.raises(ProviderFailed):
        await row.send(LARGE[:PART] if match is large_block else LARGE[:10])
    monkeypatch.undo()
    assert row.offset == 0
    await row.resume(provider)
    await row.send(LARGE)
    await row.upload.finish(row.save)
    assert await content(provider, "f/file") == LARGE


async def test_a_service_that_is_down_loses_nothing_that_was_saved(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    row = await begun(provider)
    await row.send(LARGE[: PART + 5])
    proxy.on(block, BUSY, turns=100)
    with pytest.raises(ProviderUnavailable):
        await row.send(LARGE[PART + 5 :])
    proxy.forget()
    assert row.offset == PART + 5
    await row.resume(provider)
    await row.send(LARGE[row.offset :])
    await row.upload.finish(row.save)
    assert await content(provider, "f/file") == LARGE


async def test_a_late_block_of_an_earlier_writer_changes_nothing(provider: AzureBlobProvider) -> None:
    row = await begun(provider)
    await row.send(LARGE[:PART])
    late = row.upload
    await row.resume(provider)
    await row.send(LARGE[PART:])

    async def not_noticed(*, last: bool = False) -> None:
        """Nothing says that the upload was taken over."""

    await late.append(pieces(bytes(PART)), not_noticed)
    await row.upload.finish(row.save)
    assert await content(provider, "f/file") == LARGE


async def test_dropped_blocks(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    """By the service after a week, or because another upload to this name was committed."""
    row = await begun(provider)
    await row.send(LARGE)
    proxy.on(commit, DROPPED)
    with pytest.raises(NotFound, match="Send the file again"):
        await row.upload.finish(row.save)
    await put(provider, "f/file", b"another")
    proxy.on(commit, DROPPED)
    with pytest.raises(NotFound, match="Send the file again"):
        await (await row.resume(provider)).finish(row.save)
    assert await content(provider, "f/file") == b"another"


async def test_dropped_blocks_because_of_a_file_that_may_not_be_replaced(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    row = await begun(provider, replace=False)
    await row.send(LARGE)
    await put(provider, "f/file", b"another")
    proxy.on(commit, DROPPED)
    with pytest.raises(AlreadyExists):
        await row.upload.finish(row.save)
    await row.upload.abandon()
    assert await content(provider, "f/file") == b"another"
    assert await nothing_is_left(provider)


async def test_an_ordinary_upload_to_the_same_name_meanwhile(provider: AzureBlobProvider) -> None:
    """Its block names have the same length: otherwise the service refuses them."""
    row = await begun(provider)
    await row.send(LARGE[:PART])
    await put(provider, "f/file", LARGE)
    assert await content(provider, "f/file") == LARGE


# Conditions and times


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["put", "blocks"])
async def test_only_the_expected_version_is_replaced(provider: AzureBlobProvider, data: bytes) -> None:
    first = await put(provider, "file", b"first")
    second = await provider.write(at("file"), pieces(data), "text/plain", WriteOptions(if_match=first.etag))
    for path in ("file", "absent"):
        with pytest.raises(Changed):
            await provider.write(at(path), pieces(data), "text/plain", WriteOptions(if_match=first.etag))
    assert (await provider.stat(at("file"))).etag == second.etag
    assert await walk(provider) == [("file", False)]


@pytest.mark.parametrize(("match", "data"), [(whole_put, b"small"), (commit, LARGE)], ids=["put", "blocks"])
async def test_a_lost_response_to_a_conditional_write(
    provider: AzureBlobProvider, proxy: FaultProxy, match: object, data: bytes
) -> None:
    first = await put(provider, "file", b"first")
    proxy.on(match, Lost())  # type: ignore[arg-type]
    second = await provider.write(at("file"), pieces(data), "text/plain", WriteOptions(if_match=first.etag))
    assert (await provider.stat(at("file"))).etag == second.etag
    assert await content(provider, "file") == data


async def test_a_conditional_write_that_lost_its_blocks_to_another(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    first = await put(provider, "file", b"first")
    proxy.on(commit, DROPPED)
    with pytest.raises((Changed, ProviderFailed)):
        await provider.write(at("file"), pieces(LARGE), "text/plain", WriteOptions(if_match=first.etag))
    assert await content(provider, "file") == b"first"


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["put", "blocks"])
async def test_a_modification_time_survives_copies(provider: AzureBlobProvider, data: bytes) -> None:
    written = await provider.write(at("file"), pieces(data), "text/plain", WriteOptions(modified=MOMENT))
    await provider.copy(at("file"), at("copy"))
    await provider.move(at("copy"), at("moved"))
    for entry in (written, await provider.stat(at("file")), await provider.stat(at("moved"))):
        assert entry.last_modified == "2019-05-04T03:02:01.123Z"


async def test_modification_times_of_other_programs(provider: AzureBlobProvider) -> None:
    await make_blob(provider, "rclone", b"1", mtime="2020-02-29T12:00:00.987654321+02:00")
    await make_blob(provider, "odd", b"1", mtime="yesterday")
    assert (await provider.stat(at("rclone"))).last_modified == "2020-02-29T10:00:00.987Z"
    assert ((await provider.stat(at("odd"))).last_modified or "") > "2026"


@pytest.mark.parametrize("renamed", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["direct", "renamed"])
async def test_a_process_that_dies_after_any_request(
    provider: AzureBlobProvider, proxy: FaultProxy, renamed: bool
) -> None:
    """Its last request is carried out, but the process does not learn that, and no other follows."""
    data = LARGE[: MIB + 2000]
    for last in range(1, 100):
        await provider.delete(at("f"), recursive=True) if last > 1 else None
        row = await begun(provider, replace=False, renamed=renamed)
        others = [at(f"f/file ({number})") for number in range(1, 5)]
        proxy.calls.clear()
        proxy.on(lambda _, last=last: len(proxy.calls) == last, Lost())  # type: ignore[misc]
        proxy.on(lambda _, last=last: len(proxy.calls) > last, BUSY, turns=10_000)  # type: ignore[misc]
        try:
            await row.send(data[:1000])
            await row.resume(provider)
            await row.send(data[1000:-1])
            await row.resume(provider)
            await row.send(data[-1:])
            await (await row.resume(provider)).finish(row.save, alternatives=iter(others))
        except PorticoError:
            pass
        died = len(proxy.calls) > last
        proxy.forget()
        await row.resume(provider)
        await row.send(data[row.offset :])
        entry = await (await row.resume(provider)).finish(row.save, alternatives=iter(others))
        assert entry.etag == (await provider.stat(at("f/file"))).etag
        assert await content(provider, "f/file") == data
        assert await walk(provider, "f") == [("file", False)]
        assert await nothing_is_left(provider)
        if not died:
            return
    raise AssertionError("there is no end to the requests")
