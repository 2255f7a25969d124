import asyncio
import random
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from zlib import crc32

import pytest

from portico.model.errors import (
    AlreadyExists,
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderTimeout,
    ProviderUnavailable,
    Unavailable,
)
from portico.providers.contract.uploads import WriteOptions
from portico.providers.multipart import parts
from portico.providers.multipart.parts import MIB, MIN_PART_BYTES
from portico.providers.objects.service import Version
from portico.providers.s3 import copies
from portico.providers.s3.provider import S3Provider
from portico.providers.s3.service import Service

from ...servers.proxy import Altered, Call, FaultProxy, Lost, Reply, Reset
from .actions import aborting, at, beginning, completing, content, copying, error, part, pieces, put, said, whole
from .conftest import MemoryLog, Opener

BIG = random.Random(1).randbytes(2 * MIN_PART_BYTES + 5)
SMALL = random.Random(2).randbytes(300_000)
Leftovers = Callable[[], Awaitable[list[str]]]


def head(call: Call) -> bool:
    return call.method == "HEAD"


# How it is sent


async def test_a_small_file_is_one_request(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "file", SMALL)
    assert [call.method for call in proxy.calls if not call.query and call.method != "HEAD"] == ["PUT"]


async def test_a_large_file_is_sent_in_parts_of_known_length(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    entry = await put(provider, "file", BIG)
    assert (entry.size, entry.content_type) == (len(BIG), "text/x-own")
    sent = [call for call in proxy.calls if part(call)]
    assert sorted(int(call.headers["content-length"]) for call in sent) == [5, MIN_PART_BYTES, MIN_PART_BYTES]
    for call in sent:
        assert "transfer-encoding" not in call.headers
        assert "expect" not in call.headers
        assert call.headers["x-amz-content-sha256"] not in ("", "UNSIGNED-PAYLOAD")  # there is no TLS here
    assert await content(provider, "file") == BIG
    assert await leftovers() == []


async def test_amazon_gets_a_checksum_of_each_part(
    provider: S3Provider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "is_amazon", True)
    await put(provider, "large", BIG)
    await put(provider, "small", SMALL)
    sums = [call.headers["x-amz-checksum-crc32"] for call in proxy.calls if part(call) or whole(call)]
    pieces_sent = [BIG[:MIN_PART_BYTES], BIG[MIN_PART_BYTES : 2 * MIN_PART_BYTES], BIG[-5:], SMALL]
    assert sorted(sums) == sorted(encoded_crc(piece) for piece in pieces_sent)
    assert await content(provider, "large") == BIG
    assert await content(provider, "small") == SMALL


def encoded_crc(data: bytes) -> str:
    return b64encode(crc32(data).to_bytes(4, "big")).decode()


async def test_memory_is_bounded(provider: S3Provider, proxy: FaultProxy) -> None:
    lowest = total = provider.memory._free

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal lowest
        for _ in range(64):
            yield bytes(MIB)
            lowest = min(lowest, provider.memory._free)

    await provider.write(at("file"), chunks(), "text/plain")
    assert total - lowest <= parts.MAX_UPLOAD_MEMORY + MIB
    assert provider.memory._free == total


# What goes wrong on the way


async def test_a_reset_in_a_part_is_repaired(provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers) -> None:
    proxy.on(part, Reset(after=100_000), said(503, error("SlowDown")), Reset(after=1))
    await put(provider, "file", BIG)
    assert await content(provider, "file") == BIG
    assert await leftovers() == []


async def test_a_reset_in_a_small_file_is_repaired(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(whole, Reset(after=100_000), said(500, error("InternalError")))
    await put(provider, "file", SMALL)
    assert await content(provider, "file") == SMALL


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "large"])
async def test_the_lost_answer_to_a_commit_is_no_failure(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers, replace: bool, data: bytes
) -> None:
    proxy.on(lambda call: whole(call) or completing(call), Lost())
    entry = await put(provider, "file", data, replace=replace)
    found = await provider.stat(at("file"))
    assert (entry.size, entry.etag) == (len(data), found.etag)
    assert await content(provider, "file") == data
    assert await leftovers() == []


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "large"])
async def test_all_answers_to_a_commit_are_lost(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers, data: bytes
) -> None:
    proxy.on(lambda call: whole(call) or completing(call), Lost(), turns=4)
    await put(provider, "file", data, replace=False)
    assert await content(provider, "file") == data
    assert await leftovers() == []


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "large"])
async def test_one_who_came_first_is_not_taken_for_us(
    provider: S3Provider,
    opened: Opener,
    proxy: FaultProxy,
    leftovers: Leftovers,
    data: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between our look and our commit somebody else makes the file; the condition must tell."""
    monkeypatch.setattr(Service, "is_amazon", True)  # no look before the commit
    other = opened()

    async def slow() -> AsyncIterator[bytes]:
        async for piece in pieces(data):
            yield piece
        await put(other, "file", b"other", replace=False)

    with pytest.raises(AlreadyExists):
        await provider.write(at("file"), slow(), "text/plain", WriteOptions(replace=False))
    assert await content(provider, "file") == b"other"
    assert await leftovers() == []


@pytest.mark.parametrize("data", [SMALL, BIG], ids=["small", "large"])
async def test_a_race_that_the_service_could_not_decide_is_run_again(
    provider: S3Provider, proxy: FaultProxy, data: bytes
) -> None:
    proxy.on(lambda call: whole(call) or completing(call), said(409, error("ConditionalRequestConflict")), turns=2)
    await put(provider, "file", data, replace=False)
    assert await content(provider, "file") == data


async def test_an_error_inside_of_a_success_is_a_failure(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers
) -> None:
    proxy.on(completing, said(200, error("InternalError")), turns=9)
    with pytest.raises(ProviderFailed) as caught:
        await put(provider, "file", BIG)
    assert "InternalError within a success" in (caught.value.cause or "")
    assert await provider.find("file") is None
    assert await leftovers() == []


async def test_an_error_inside_of_a_success_may_pass(provider: S3Provider, proxy: FaultProxy) -> None:
    proxy.on(completing, said(200, error("InternalError")))
    await put(provider, "file", BIG)
    assert await content(provider, "file") == BIG


@pytest.mark.parametrize("matches", [part, completing, beginning], ids=["part", "complete", "begin"])
async def test_a_service_that_fails_for_good_keeps_nothing(
    provider: S3Provider, proxy: FaultProxy, log: MemoryLog, leftovers: Leftovers, matches: Callable[[Call], bool]
) -> None:
    await put(provider, "file", b"old")
    proxy.on(matches, said(503, error("SlowDown")), turns=99)
    with pytest.raises(ProviderUnavailable):
        await put(provider, "file", BIG)
    assert await content(provider, "file") == b"old"
    left = await leftovers()
    if matches is beginning:  # there may be an upload whose id never came: the record stays, and the sweep looks
        assert left == ["file 1"]
        await log.sweep(provider)
        left = await leftovers()
    assert left == []


async def test_an_upload_that_cannot_be_recorded_does_not_begin(
    provider: S3Provider, proxy: FaultProxy, log: MemoryLog, leftovers: Leftovers
) -> None:
    log.error = Unavailable("The gateway's database doesn't respond. Try again in a moment.")
    with pytest.raises(Unavailable):
        await put(provider, "file", BIG)
    assert await leftovers() == []
    assert not [call for call in proxy.calls if beginning(call)]
    await put(provider, "file", SMALL)  # one request needs no record


async def test_a_record_costs_no_request(provider: S3Provider, proxy: FaultProxy, log: MemoryLog) -> None:
    await provider._service.open()
    await put(provider, "file", BIG)
    # Whether it is a folder, and replaces a file; begin, three parts, complete.
    assert len(proxy.calls) == 7
    assert log.begun == 1


async def test_a_refused_upload_leaves_no_record(provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers) -> None:
    proxy.on(beginning, said(403, error("AccessDenied")))
    with pytest.raises(PorticoError) as caught:
        await put(provider, "file", BIG)
    assert "s3:PutObject" in (caught.value.cause or "")
    assert await leftovers() == []


async def test_a_service_that_stops_reading(opened: Opener) -> None:
    stalled: list[asyncio.StreamWriter] = []

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stalled.append(writer)
        request = await reader.readuntil(b"\r\n\r\n")
        while not request.startswith(b"PUT"):
            body = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            status = b"404 Not Found" if request.startswith(b"HEAD") else b"200 OK"
            size = 0 if request.startswith(b"HEAD") else len(body)
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, size) + body[:size])
            request = await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(3600)

    server = await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1000)
    port = server.sockets[0].getsockname()[1]
    stuck = opened(endpoint_url=f"http://127.0.0.1:{port}", timeout=0.3)
    with pytest.raises(ProviderTimeout):
        await stuck.write(at("file"), pieces(bytes(MIN_PART_BYTES - 1)), "text/plain")
    await stuck.close()
    for writer in stalled:
        writer.transport.abort()
    server.close()


@pytest.mark.parametrize("matches", [part, completing, beginning], ids=["part", "complete", "begin"])
async def test_a_cancelled_upload_leaves_nothing(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers, matches: Callable[[Call], bool]
) -> None:
    """Whatever it is waiting for when it is cancelled."""
    reached = asyncio.Event()

    def reaches(call: Call) -> bool:
        if matches(call):
            reached.set()
        return False

    proxy.on(reaches, Reset())
    task = asyncio.ensure_future(put(provider, "file", BIG))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await provider.close()  # waits for what has to be finished
    assert await leftovers() == []


async def test_an_upload_that_is_cancelled_while_it_is_recorded(
    provider: S3Provider, log: MemoryLog, leftovers: Leftovers
) -> None:
    log.may_begin.clear()
    task = asyncio.ensure_future(put(provider, "file", BIG))
    await log.beginning.wait()
    task.cancel()
    await asyncio.sleep(0)
    log.may_begin.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await provider.close()
    assert await leftovers() == []


# The sweep


async def test_an_abort_that_fails_is_left_to_the_sweep(
    provider: S3Provider, proxy: FaultProxy, log: MemoryLog, leftovers: Leftovers
) -> None:
    proxy.on(part, said(503, error("SlowDown")), turns=99)
    proxy.on(aborting, said(503, error("SlowDown")), turns=4)
    with pytest.raises(ProviderUnavailable):
        await put(provider, "file", BIG)
    assert await leftovers() == ["file", "file 1"]
    await log.sweep(provider)
    assert await leftovers() == []


async def test_a_process_that_died_before_it_knew_its_upload(
    provider: S3Provider, client: Any, bucket: str, proxy: FaultProxy, log: MemoryLog
) -> None:
    earlier = await client.create_multipart_upload(Bucket=bucket, Key="file")
    proxy.on(lambda call: call.method == "GET" and "uploads" in call.query, Altered.body(dated(earlier)))
    proxy.on(beginning, Lost(), turns=4)
    with pytest.raises(ProviderUnavailable):
        await put(provider, "file", BIG)
    await client.create_multipart_upload(Bucket=bucket, Key="file2")
    await log.sweep(provider)
    await check_left(client, bucket, earlier)


def dated(earlier: dict[str, str]) -> Callable[[bytes], bytes]:
    """Let the earlier upload be from 2010."""

    def alter(body: bytes) -> bytes:
        uploads = re.split(r"(?=<Upload>)", body.decode())
        return "".join(
            re.sub(r"<Initiated>\d{4}", "<Initiated>2010", one) if earlier["UploadId"] in one else one
            for one in uploads
        ).encode()

    return alter


async def check_left(client: Any, bucket: str, earlier: dict[str, str]) -> None:
    uploads_left = (await client.list_multipart_uploads(Bucket=bucket))["Uploads"]
    assert {upload["Key"] for upload in uploads_left} == {"file", "file2"}
    assert [upload["UploadId"] for upload in uploads_left if upload["Key"] == "file"] == [earlier["UploadId"]]


# Copies


async def test_a_copy_of_more_than_5_gib_goes_in_parts(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_ONE_CALL", MIN_PART_BYTES)
    monkeypatch.setattr(copies, "_PART", 5 * MIB)
    await put(provider, "source", BIG)
    too_large = said(400, error("InvalidRequest"))
    proxy.on(lambda call: copying(call) and not call.query, too_large, turns=9)
    await provider.copy(at("source"), at("target"))
    assert await content(provider, "target") == BIG
    assert (await provider.stat(at("target"))).content_type == "text/x-own"
    with pytest.raises(AlreadyExists):
        await provider.copy(at("source"), at("target"), replace=False)
    assert await leftovers() == []


@pytest.mark.parametrize("amazon", [False, True])
async def test_copy_in_parts_compares_its_target_at_its_end(
    provider: S3Provider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, leftovers: Leftovers, amazon: bool
) -> None:
    monkeypatch.setattr(copies, "_ONE_CALL", MIN_PART_BYTES)
    monkeypatch.setattr(copies, "_PART", 5 * MIB)
    source = Version("source", (await put(provider, "source", BIG)).etag)
    old = (await put(provider, "target", b"old")).etag
    proxy.on(lambda call: copying(call) and not call.query, said(400, error("InvalidRequest")), turns=9)
    monkeypatch.setattr(Service, "is_amazon", amazon)
    work = provider._service.work
    conditions = []

    async def after_an_upload(operation: str, **parameters: Any) -> Any:
        if operation == "upload_part_copy" and parameters["PartNumber"] == 1 and not amazon:
            await put(provider, "target", b"newer")
        if operation == "complete_multipart_upload":
            conditions.append(parameters.get("IfMatch"))
        return await work(operation, **parameters)

    monkeypatch.setattr(provider._service, "work", after_an_upload)
    if amazon:  # it compares by itself
        await provider.duplicate(source, "target", replace=True, if_match=old)
        assert conditions == [f'"{old}"']
        return
    with pytest.raises(AlreadyExists):
        await provider.duplicate(source, "target", replace=True, if_match=old)
    assert await content(provider, "target") == b"newer"
    assert await leftovers() == []


async def test_copy_lets_amazon_compare_its_target(provider: S3Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Version("source", (await put(provider, "source")).etag)
    old = (await put(provider, "target", b"old")).etag
    monkeypatch.setattr(Service, "is_amazon", True)
    work, conditions = provider._service.work, []

    async def compares(operation: str, **parameters: Any) -> Any:
        conditions.append(parameters.get("IfMatch"))
        if len(conditions) == 1:
            await provider.delete(at("target"))
            raise NotFound("NoSuchKey")
        return await work(operation, **parameters)

    monkeypatch.setattr(provider._service, "work", compares)
    with pytest.raises(AlreadyExists):
        await provider.duplicate(source, "target", replace=True, if_match=old)
    old = (await put(provider, "target", b"old")).etag
    await provider.duplicate(source, "target", replace=True, if_match=old)
    assert conditions == [f'"{old}"'] * 2
    assert await content(provider, "target") == await content(provider, "source")


async def test_a_deleted_version_of_more_than_5_gib_is_restored_in_parts(
    provider: S3Provider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_ONE_CALL", MIN_PART_BYTES)
    monkeypatch.setattr(copies, "_PART", 5 * MIB)
    await provider._service.call("put_bucket_versioning", VersioningConfiguration={"Status": "Enabled"})
    await put(provider, "source", BIG)
    await provider.move_to_trash(at("source"), at("place"))
    await put(provider, "source", b"since")
    proxy.on(lambda call: copying(call) and not call.query, said(400, error("InvalidRequest")), turns=9)
    await provider.restore(at("place"), at("target"))
    assert await content(provider, "target") == BIG
    assert await content(provider, "source") == b"since"


async def test_a_small_copy_that_is_refused_stays_refused(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "source")
    proxy.on(copying, said(400, error("InvalidRequest")))
    with pytest.raises(ProviderFailed):
        await provider.copy(at("source"), at("target"))


async def test_a_large_copy_that_fails_leaves_nothing(
    provider: S3Provider, proxy: FaultProxy, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_ONE_CALL", MIN_PART_BYTES)
    monkeypatch.setattr(copies, "_PART", 5 * MIB)
    await put(provider, "source", BIG)
    proxy.on(lambda call: copying(call) and not call.query, said(400, error("InvalidRequest")))
    proxy.on(lambda call: copying(call) and bool(call.query), said(503, error("SlowDown")), turns=99)
    with pytest.raises(ProviderUnavailable):
        await provider.copy(at("source"), at("target"))
    assert await provider.find("target") is None
    assert await leftovers() == []


async def test_a_service_without_a_conditional_copy(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "source", b"1")
    proxy.on(
        lambda call: copying(call) and "if-none-match" in call.headers, said(501, error("NotImplemented")), turns=99
    )
    await provider.copy(at("source"), at("target"), replace=False)
    with pytest.raises(AlreadyExists):
        await provider.copy(at("source"), at("target"), replace=False)


async def test_the_lost_answer_to_a_copy_is_no_failure(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "source", b"1")
    # The first attempt is done and not heard of; the second meets its work.
    proxy.on(copying, Lost(), said(412, error("PreconditionFailed")))
    await provider.copy(at("source"), at("target"), replace=False)
    assert await content(provider, "target") == b"1"


async def test_an_error_inside_of_a_copy_is_a_failure(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "source", b"1")
    proxy.on(copying, said(200, error("InternalError")), turns=9)
    with pytest.raises(ProviderFailed):
        await provider.copy(at("source"), at("target"))


async def test_an_object_that_cannot_be_removed_is_reported(provider: S3Provider, proxy: FaultProxy) -> None:
    for name in "ab":
        await put(provider, f"f/{name}")
    body = "<DeleteResult><Error><Key>f/a</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    proxy.on(lambda call: "delete" in call.query, Reply(200, {}, body.encode()))
    with pytest.raises(PorticoError) as caught:
        await provider.delete(at("f"), recursive=True)
    assert "s3:DeleteObject" in (caught.value.cause or "")
