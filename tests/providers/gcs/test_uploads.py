import asyncio
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from portico.model.errors import (
    AlreadyExists,
    InvalidPath,
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderTimeout,
    ProviderUnavailable,
)
from portico.providers.gcs import checksums
from portico.providers.gcs.provider import GcsProvider
from portico.providers.objects.service import Version

from ...servers.gcs import CutBody, DropAnswer, Fault, GcsServer, Silence, Status, buckets
from ...servers.gcs.buckets import Bucket
from .actions import at, content, noise, put

MIB = 2**20
SMALL = noise(1000)
LARGE = noise(20 * MIB + 7)
INSERT = "uploadType=multipart"
CHUNK = "upload_id"


def sent(server: GcsServer, method: str, query: str) -> int:
    return sum(call.method == method and query in call.query for call in server.calls)


async def test_a_small_file_is_one_upload(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", SMALL)
    uploads = [call for call in server.calls if "/upload/" in call.path]
    assert [call.query["uploadType"] for call in uploads] == ["multipart"]


async def test_a_large_file_is_one_session(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", LARGE)
    assert sent(server, "PUT", CHUNK) == 3
    assert await content(provider, "f") == LARGE


SMALL_FAULTS = [
    Fault(Status(503), address="/upload/", times=2),
    Fault(Status(429, headers={"Retry-After": "0"}), address="/upload/", times=3),
    Fault(CutBody(300), "POST", INSERT),
    Fault(DropAnswer(), "POST", INSERT, times=2),
]
LARGE_FAULTS = [
    *SMALL_FAULTS[:2],
    Fault(Status(500, b"x" * 10 * MIB), "PUT", CHUNK),
    Fault(CutBody(3 * MIB), "PUT", CHUNK),
    Fault(CutBody(3 * MIB), "PUT", CHUNK, skip=1, times=3),
    Fault(DropAnswer(), "POST", "uploadType=resumable"),
    Fault(DropAnswer(), "PUT", CHUNK, times=2),
    Fault(DropAnswer(), "PUT", CHUNK, skip=2),
]
FAULTS = [(fault, SMALL) for fault in SMALL_FAULTS] + [(fault, LARGE) for fault in LARGE_FAULTS]


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize(
    ("fault", "data"),
    FAULTS,
    ids=[
        f"{type(fault.what).__name__}-{fault.method}-{fault.times}-{fault.skip}-{len(data)}" for fault, data in FAULTS
    ],
)
async def test_a_temporary_fault_is_retried(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, fault: Fault, data: bytes, replace: bool
) -> None:
    if replace:
        await put(provider, "f", b"old")
    server.faults.append(Fault(fault.what, fault.method, fault.address, fault.times, fault.skip))
    entry = await put(provider, "f", data, replace=replace)
    assert entry.size == len(data)
    assert (await provider.stat(at("f"))).etag == entry.etag
    server.faults.clear()
    assert await content(provider, "f") == data


@pytest.mark.parametrize("replace", [True, False])
async def test_a_lost_commit_is_looked_at_and_not_repeated(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, replace: bool
) -> None:
    server.faults.append(Fault(DropAnswer(), "POST", INSERT))
    entry = await put(provider, "f", SMALL, replace=replace)
    assert str(bucket.objects["f"].generation) == entry.etag
    assert sum("/upload/" in call.path for call in server.calls) == 1


async def test_a_lost_commit_of_another_is_not_ours(server: GcsServer, bucket: Bucket, provider: GcsProvider) -> None:
    """The answer to a refusal is lost, and the object there is another's with the same bytes."""
    await put(provider, "f", SMALL)
    server.faults.append(Fault(DropAnswer(), "POST", INSERT))
    with pytest.raises(AlreadyExists):
        await put(provider, "f", SMALL, replace=False)


async def test_a_late_retry_replaces_only_what_was_seen(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    await put(provider, "f", b"old")
    old = bucket.objects["f"].generation
    server.faults.append(Fault(Status(503), "POST", INSERT))
    await put(provider, "f", SMALL)
    last = [call for call in server.calls if "/upload/" in call.path][-1]
    assert last.query["ifGenerationMatch"] == str(old)


MOVED = Status(302, headers={"Location": "http://127.0.0.1:1/"})


@pytest.mark.parametrize(
    ("what", "address", "error"),
    [
        (Status(503), "/upload/", ProviderUnavailable),
        (Status(503), CHUNK, ProviderUnavailable),
        (Status(410), CHUNK, ProviderUnavailable),
        (Status(418), "/upload/", ProviderFailed),
        (Status(200, b'{"error": {"code": 500}}'), f"{INSERT}|{CHUNK}", ProviderFailed),
        (Status(200), "/upload/", ProviderFailed),
        (Status(308, headers={"Range": "bytes=0-5"}), CHUNK, ProviderFailed),
        (Status(308, headers={"Range": "bytes=0-8388607"}), CHUNK, ProviderFailed),
        (Status(308, headers={"Range": "bytes=0-99999999"}), CHUNK, ProviderFailed),
        (Status(308, headers={"Range": "nonsense"}), CHUNK, ProviderFailed),
        (MOVED, "/upload/", ProviderFailed),
    ],
)
async def test_what_goes_wrong_for_good_leaves_nothing(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, what: Status, address: str, error: type[PorticoError]
) -> None:
    await put(provider, "old", b"old")
    for data in (SMALL, LARGE) if address != CHUNK else (LARGE,):
        server.faults += [Fault(what, "POST", address, times=99), Fault(what, "PUT", address, times=99, skip=1)]
        with pytest.raises(error) as caught:
            await put(provider, "new", data)
        assert bucket.name not in caught.value.detail
        server.faults.clear()
        assert sorted(bucket.objects) == ["old"]
        assert server.open_sessions == 0
        assert provider.memory._free == 512 * MIB


async def test_a_cancelled_upload_is_cancelled_at_the_service(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    halfway = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield noise(MIB)
        halfway.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(provider.write(at("f"), endless(), "text/plain"))
    await halfway.wait()
    while not server.sessions:
        await asyncio.sleep(0.01)
    assert server.open_sessions == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.open_sessions == 0
    assert bucket.objects == {}
    assert provider.memory._free == 512 * MIB


async def test_an_upload_that_is_never_called_complete(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    everything = {"Range": f"bytes=0-{len(LARGE) - 1}"}
    server.faults.append(Fault(Status(308, headers=everything), "PUT", CHUNK, times=99, skip=2))
    with pytest.raises(ProviderFailed):
        await put(provider, "f", LARGE)
    assert bucket.objects == {}


async def test_a_client_that_times_out_is_not_the_service(bucket: Bucket, provider: GcsProvider) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield LARGE
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await provider.write(at("f"), slow(), "text/plain")
    assert bucket.objects == {}


async def test_a_cancellation_that_fails_is_not_the_error(
    server: GcsServer, bucket: Bucket, provider: GcsProvider
) -> None:
    class Gone(Exception):
        pass

    async def broken() -> AsyncIterator[bytes]:
        yield LARGE
        raise Gone

    server.faults.append(Fault(Status(500), "DELETE", CHUNK, times=99))
    with pytest.raises(Gone):
        await provider.write(at("f"), broken(), "text/plain")
    assert bucket.objects == {}


async def test_a_service_that_is_silent(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "old")
    monkeypatch.setattr(provider._service, "timeout", 0.2)
    server.faults.append(Fault(Silence(), times=99, address="/upload/.*(multipart|upload_id)"))
    with pytest.raises(ProviderTimeout):
        await put(provider, "f", SMALL)
    with pytest.raises(ProviderTimeout):
        await put(provider, "f", LARGE)
    assert sorted(bucket.objects) == ["old"]


async def test_a_small_file_whose_answer_never_came_is_looked_for(
    server: GcsServer, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "old")
    monkeypatch.setattr(provider._service, "timeout", 3.0)
    server.faults.append(Fault(Silence(afterwards=True), "POST", INSERT))
    entry = await put(provider, "f", SMALL)
    assert (await provider.stat(at("f"))).etag == entry.etag


async def test_a_chunk_whose_answer_never_came_goes_on(
    server: GcsServer, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(provider, "old")
    monkeypatch.setattr(provider._service, "timeout", 3.0)
    server.faults.append(Fault(Silence(), "PUT", CHUNK, skip=1))
    await put(provider, "f", LARGE)
    assert await content(provider, "f") == LARGE


async def test_the_token_may_end_during_an_upload(server: GcsServer, provider: GcsProvider) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield LARGE
        server.accounts.revoke_all()
        yield LARGE

    await provider.write(at("f"), chunks(), "text/plain")
    assert await content(provider, "f") == LARGE + LARGE


async def test_bytes_that_were_damaged_on_the_way(
    server: GcsServer, bucket: Bucket, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums.Checksum, "text", "AAAAAA==")
    for data in (SMALL, LARGE):
        with pytest.raises(ProviderFailed):
            await put(provider, "f", data)
    assert bucket.objects == {}
    assert server.open_sessions == 0


async def test_md5_replaces_a_slow_crc(bucket: Bucket, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "FAST", False)
    for data in (SMALL, LARGE):
        await put(provider, "f", data)
        assert await content(provider, "f") == data
    monkeypatch.setattr(checksums.Checksum, "text", "AAAAAAAAAAAAAAAAAAAAAA==")
    with pytest.raises(ProviderFailed):
        await put(provider, "f", SMALL)


async def test_memory_is_bounded(provider: GcsProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lives in this process too: what it has on the way counts, what it stored is on disk."""
    monkeypatch.setattr(buckets, "_IN_MEMORY", 1)
    most = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal most
        for _ in range(512):
            most = max(most, 512 * MIB - provider.memory._free)
            yield bytes(MIB // 4)

    tracemalloc.start()
    await provider.write(at("f"), chunks(), "text/plain")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most <= 32 * MIB
    assert peak < 96 * MIB
    assert (await provider.stat(at("f"))).size == 128 * MIB


async def test_a_name_that_the_service_keeps(provider: GcsProvider) -> None:
    with pytest.raises(InvalidPath):
        await put(provider, ".well-known/acme-challenge/x")
    with pytest.raises(InvalidPath):
        await put(provider, "/".join(["é" * 100] * 6))


async def test_a_copy_goes_on_by_its_token(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", LARGE)
    server.calls.clear()
    await provider.copy(at("f"), at("g"))
    assert sum("rewriteTo" in call.path for call in server.calls) == 6
    assert await content(provider, "g") == LARGE
    assert (await provider.stat(at("g"))).content_type == "text/plain"


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("what", [DropAnswer(), Status(503)], ids=["lost", "503"])
async def test_a_copy_whose_answer_is_lost(
    server: GcsServer, provider: GcsProvider, replace: bool, what: DropAnswer | Status
) -> None:
    await put(provider, "f", SMALL)
    server.faults.append(Fault(what, "POST", "rewriteTo"))
    await provider.copy(at("f"), at("g"), replace=replace)
    assert await content(provider, "g") == SMALL
    with pytest.raises(AlreadyExists):
        await provider.copy(at("f"), at("g"), replace=False)


async def test_a_copy_of_what_is_gone(provider: GcsProvider) -> None:
    with pytest.raises(NotFound):
        await provider.duplicate(Version("missing", None), "target", replace=True)
