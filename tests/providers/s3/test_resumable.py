"""Resumable uploads and modification times on S3."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portico.model.errors import Changed, NotFound, ProviderUnavailable
from portico.providers.contract.uploads import ResumableUpload, WriteOptions
from portico.providers.multipart.parts import MIB, MIN_PART_BYTES
from portico.providers.objects.part_store import UploadState
from portico.providers.s3.provider import S3Provider
from portico.providers.s3.service import Service
from portico.providers.s3.uploads import S3Upload

from ...servers.proxy import Call, FaultProxy, Lost, Reply
from .actions import aborting, at, beginning, completing, content, copying, error, part, pieces, put, said
from .conftest import Opener

CONTENT = random.Random(3).randbytes(2 * MIN_PART_BYTES + 6 * MIB)
MOMENT = datetime(2019, 5, 4, 3, 2, 1, 123_456, tzinfo=UTC)
Leftovers = Callable[[], Awaitable[list[str]]]


class Row:
    def __init__(self, upload: ResumableUpload) -> None:
        self.upload = upload
        self.state = upload.state

    async def save(self, *, last: bool = False) -> None:
        self.state = self.upload.state

    async def send(self, data: bytes) -> None:
        await self.upload.append(pieces(data), self.save)

    async def finish(self) -> str:
        return (await self.upload.finish(self.save)).name


async def begun(provider: S3Provider, *, size: int | None = None, renamed: bool = False, **options: Any) -> Row:
    chosen = WriteOptions(at_most=size, **options)
    return Row(await provider.begin_upload(at("file"), "text/x-own", chosen, renamed=renamed))


def tail(call: Call) -> bool:
    return call.method == "PUT" and ".portico~uploads" in call.path and not call.query


async def test_parts_that_are_large_enough_are_sent_as_they_are(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    row = await begun(provider, size=len(CONTENT))
    for start in range(0, len(CONTENT), 6 * MIB):
        await row.send(CONTENT[start : start + 6 * MIB])
    assert not [call for call in proxy.calls if tail(call)]
    sizes = [int(call.headers["content-length"]) for call in proxy.calls if part(call)]
    assert sizes == [6 * MIB, 6 * MIB, 6 * MIB, 4 * MIB]
    await row.finish()
    assert await content(provider, "file") == CONTENT
    assert await leftovers() == []


async def test_what_is_too_small_for_a_part_waits_in_a_hidden_object(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    row = await begun(provider)
    for start in range(0, 7 * MIB, MIB):
        await row.send(CONTENT[start : start + MIB])
    assert [len(part) for part in (await leftovers(),)] == [3]  # one upload, and two tails after its part
    assert (await provider.list_page(at("/"), 10, None)).entries == []
    sizes = [int(call.headers["content-length"]) for call in proxy.calls if part(call)]
    assert sizes == [5 * MIB]
    await row.finish()
    assert await content(provider, "file") == CONTENT[: 7 * MIB]
    assert await leftovers() == []


async def test_equal_parts_for_a_service_that_demands_them(
    provider: S3Provider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = "https://account.r2.cloudflarestorage.com"
    state = UploadState("id", "file", "", True, False, None, None)
    await provider._service.open()
    monkeypatch.setattr(provider._service, "endpoint_url", endpoint)
    assert S3Upload(provider._service, state).limits.equal
    row = await begun(provider, size=len(CONTENT))
    for start in range(0, len(CONTENT), 6 * MIB):
        await row.send(CONTENT[start : start + 6 * MIB])
    await row.finish()
    sizes = [int(call.headers["content-length"]) for call in proxy.calls if part(call)]
    assert sizes == [MIN_PART_BYTES, MIN_PART_BYTES, 6 * MIB]
    assert await content(provider, "file") == CONTENT


async def test_the_requests_of_an_upload(provider: S3Provider, proxy: FaultProxy) -> None:
    row = await begun(provider, size=MIN_PART_BYTES)
    before = len(proxy.calls)
    await row.send(CONTENT[:MIN_PART_BYTES])
    assert len(proxy.calls) - before == 2  # begin, part
    before = len(proxy.calls)
    await row.finish()
    assert len(proxy.calls) - before == 3  # whether it is a folder, complete, whether anything is left


async def test_an_upload_whose_id_was_lost_is_aborted(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers, client: Any, bucket: str
) -> None:
    row = await begun(provider)
    proxy.on(beginning, Lost(), turns=4)
    with pytest.raises(ProviderUnavailable):
        await row.send(CONTENT)
    assert await leftovers() == ["file"] * 4
    row.upload = await provider.resume_upload(row.state)
    await row.send(CONTENT)
    await row.finish()
    assert await content(provider, "file") == CONTENT
    assert await leftovers() == []


async def test_an_abandoned_upload_whose_id_was_lost(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    row = await begun(provider)
    proxy.on(beginning, Lost(), turns=4)
    with pytest.raises(ProviderUnavailable):
        await row.send(CONTENT)
    await (await provider.resume_upload(row.state)).abandon()
    assert await leftovers() == []


async def test_a_service_that_fails_keeps_what_was_saved(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    row = await begun(provider, size=len(CONTENT))
    await row.send(CONTENT[: 6 * MIB])
    proxy.on(part, said(503, error("SlowDown")), turns=8)
    with pytest.raises(ProviderUnavailable):
        await row.send(CONTENT[6 * MIB :])
    row.upload = await provider.resume_upload(row.state)
    assert row.upload.offset == 6 * MIB
    await row.send(CONTENT[6 * MIB :])
    await row.finish()
    assert await content(provider, "file") == CONTENT
    assert await leftovers() == []


@pytest.mark.parametrize("size", [100, len(CONTENT)], ids=["small", "parts"])
async def test_the_lost_answer_to_a_commit(provider: S3Provider, proxy: FaultProxy, size: int) -> None:
    row = await begun(provider, replace=False)
    await row.send(CONTENT[:size])
    proxy.on(lambda call: completing(call) or (call.method == "PUT" and call.path.endswith("/file")), Lost())
    await row.finish()
    assert await content(provider, "file") == CONTENT[:size]


async def test_an_upload_that_the_service_has_lost(
    provider: S3Provider, proxy: FaultProxy, client: Any, bucket: str
) -> None:
    row = await begun(provider)
    await row.send(CONTENT[: 6 * MIB])
    for upload in (await client.list_multipart_uploads(Bucket=bucket))["Uploads"]:
        await client.abort_multipart_upload(Bucket=bucket, Key="file", UploadId=upload["UploadId"])
    gone = said(404, error("NoSuchUpload"))  # moto's own answer is a 500
    proxy.on(lambda call: part(call) or completing(call), gone, turns=9)
    with pytest.raises(NotFound, match="Send the file again"):
        await row.send(CONTENT[6 * MIB :])
    with pytest.raises(NotFound, match="Send the file again"):
        await row.finish()


async def test_a_late_part_of_a_former_writer_changes_nothing(
    provider: S3Provider, opened: Opener, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = await begun(provider, size=len(CONTENT))
    await row.send(CONTENT[: 6 * MIB])
    former = Row(await opened().resume_upload(row.state))
    sending, go = asyncio.Event(), asyncio.Event()
    send = S3Upload.send

    async def slow(parts: S3Upload, part: Any) -> str:
        sending.set()
        await go.wait()
        return await send(parts, part)

    with monkeypatch.context() as patched:
        patched.setattr(S3Upload, "send", slow)
        late = asyncio.ensure_future(former.send(bytes(len(CONTENT) - 6 * MIB)))
        await sending.wait()
    row.upload = await provider.resume_upload(former.state)
    await row.send(CONTENT[6 * MIB :])
    go.set()
    await late
    await row.finish()
    assert await content(provider, "file") == CONTENT


async def test_a_renamed_file_is_copied_within_the_service(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    await put(provider, "file", b"first")
    row = Row(
        await provider.begin_upload(
            at("file"), "text/x-own", WriteOptions(replace=False, modified=MOMENT), renamed=True
        )
    )
    await row.send(CONTENT)
    entry = await row.upload.finish(row.save, alternatives=iter([at("file (1)")]))
    assert entry.name == "file (1)"
    assert len([call for call in proxy.calls if copying(call)]) == 1
    found = await provider.stat(at("file (1)"))
    assert (found.content_type, found.last_modified) == ("text/x-own", "2019-05-04T03:02:01.123Z")
    assert await content(provider, "file (1)") == CONTENT
    assert await leftovers() == []


async def test_a_failed_clean_up_fails_nothing(provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers) -> None:
    row = await begun(provider)
    await row.send(b"small")
    proxy.on(lambda call: call.method in ("DELETE", "POST"), said(503, error("SlowDown")), turns=4)
    assert await row.finish() == "file"
    assert len(await leftovers()) == 1
    await row.upload.abandon()
    assert await leftovers() == []
    assert await content(provider, "file") == b"small"


@pytest.mark.parametrize("date", ["Wed, 01 Jan 2025 00:00:00 GMT", "Wed, 01 Jan 2025 00:00:00 -0000"])
async def test_the_clock_of_the_service(provider: S3Provider, proxy: FaultProxy, date: str) -> None:
    proxy.on(lambda call: call.method == "HEAD", Reply(403, headers={"Date": date}))
    moment = await provider._service.now()
    assert moment - datetime(2025, 1, 1, tzinfo=UTC) < timedelta(minutes=1)


async def test_a_service_without_a_clock(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(lambda call: call.method == "HEAD", Reply(403, headers={"Date": "never"}))
    assert datetime.now(UTC) - await provider._service.now() < timedelta(minutes=1)


# Times and conditions


async def test_times_as_rclone_writes_and_reads_them(provider: S3Provider, client: Any, bucket: str) -> None:
    entry = await provider.write(at("file"), pieces(b"x"), "text/plain", WriteOptions(modified=MOMENT))
    assert entry.last_modified == "2019-05-04T03:02:01.123Z"
    described = await client.head_object(Bucket=bucket, Key="file")
    assert described["Metadata"]["mtime"] == "1556938921.123456"
    await client.put_object(Bucket=bucket, Key="theirs", Body=b"x", Metadata={"mtime": "1556938921.123456789"})
    await provider.copy(at("theirs"), at("copy"))
    for name in ("theirs", "copy"):
        assert (await provider.stat(at(name))).last_modified == "2019-05-04T03:02:01.123Z"
    await client.put_object(Bucket=bucket, Key="odd", Body=b"x", Metadata={"mtime": "yesterday"})
    assert (await provider.stat(at("odd"))).modified > datetime(2020, 1, 1, tzinfo=UTC)  # type: ignore[operator]


@pytest.mark.parametrize("data", [b"new", CONTENT], ids=["small", "parts"])
async def test_amazon_compares_the_version_itself(
    provider: S3Provider,
    opened: Opener,
    proxy: FaultProxy,
    leftovers: Leftovers,
    data: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Service, "is_amazon", True)  # no look before the commit
    first = await put(provider, "file", b"first")
    other = opened()

    async def slow() -> AsyncIterator[bytes]:
        async for piece in pieces(data):
            yield piece
        await put(other, "file", b"other")
        # moto compares only for a single request
        proxy.on(completing, said(412, error("PreconditionFailed")))

    with pytest.raises(Changed):
        await provider.write(at("file"), slow(), "text/plain", WriteOptions(if_match=first.etag))
    assert await content(provider, "file") == b"other"
    assert await leftovers() == []
    assert [call.headers["if-match"] for call in proxy.calls if "if-match" in call.headers] == [f'"{first.etag}"']


@pytest.mark.parametrize("data", [b"new", CONTENT], ids=["small", "parts"])
async def test_the_lost_answer_to_a_conditional_commit(provider: S3Provider, proxy: FaultProxy, data: bytes) -> None:
    first = await put(provider, "file", b"first")
    proxy.on(lambda call: completing(call) or (call.method == "PUT" and call.path.endswith("/file")), Lost())
    await provider.write(at("file"), pieces(data), "text/plain", WriteOptions(if_match=first.etag))
    assert await content(provider, "file") == data
    assert not [call for call in proxy.calls if aborting(call)]
