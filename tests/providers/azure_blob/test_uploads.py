import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from portico.model.errors import AlreadyExists, NotPossible, PorticoError, ProviderFailed, ProviderUnavailable
from portico.providers.azure_blob.provider import AzureBlobProvider
from portico.providers.contract.uploads import WriteOptions
from portico.providers.multipart.parts import MAX_UPLOAD_MEMORY

from ...servers.azurite import KEY, Azurite
from ...servers.proxy import Call, FaultProxy, Lost, Reply, Reset
from .actions import PART, at, block, commit, content, put, uncommitted, walk, whole_put

BUSY = Reply(503, {"x-ms-error-code": "ServerBusy"})
SMALL = b"small"
LARGE = bytes(range(256)) * (PART * 2 // 256) + b"end"


def kinds(calls: list[Call]) -> list[str]:
    return [name for call in calls for name, test in TESTS.items() if test(call)]


TESTS = {"put": whole_put, "block": block, "commit": commit}


async def test_a_small_file_is_one_request(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "small", SMALL)
    assert kinds(proxy.calls) == ["put"]
    assert await content(provider, "small") == SMALL


async def test_a_large_file_is_blocks_and_their_list(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "large", LARGE)
    assert kinds(proxy.calls) == ["block", "block", "block", "commit"]
    assert len({len(call.query["blockid"]) for call in proxy.calls if block(call)}) == 1
    assert all(call.headers["content-md5"] for call in proxy.calls if block(call))
    assert await content(provider, "large") == LARGE


async def test_a_name_that_is_taken_is_refused_before_a_block_is_sent(
    provider: AzureBlobProvider, proxy: FaultProxy
) -> None:
    """The service would keep the blocks for a week, and no request removes them there."""
    await put(provider, "file", SMALL)
    with pytest.raises(AlreadyExists):
        await put(provider, "file", LARGE, replace=False)
    assert "block" not in kinds(proxy.calls)
    assert await content(provider, "file") == SMALL


async def test_exactly_one_part_is_one_request(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "part", LARGE[:PART])
    assert kinds(proxy.calls) == ["put"]


@pytest.mark.parametrize("step", TESTS)
async def test_busy_twice_and_then_fine(provider: AzureBlobProvider, proxy: FaultProxy, step: str) -> None:
    data = SMALL if step == "put" else LARGE
    proxy.on(TESTS[step], BUSY, turns=2)
    await put(provider, "file", data)
    assert await content(provider, "file") == data


@pytest.mark.parametrize(("step", "after"), [("put", 2), ("block", PART // 2), ("commit", 10)])
async def test_a_reset_on_the_way(provider: AzureBlobProvider, proxy: FaultProxy, step: str, after: int) -> None:
    data = SMALL if step == "put" else LARGE

    def long_enough(call: Call) -> bool:
        return TESTS[step](call) and int(call.headers["content-length"]) > after

    proxy.on(long_enough, Reset(after))
    written = await put(provider, "file", data)
    assert await content(provider, "file") == data
    assert (await provider.stat(at("file"))).etag == written.etag


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("step", ["put", "commit"])
async def test_the_answer_to_the_last_request_is_lost(
    provider: AzureBlobProvider, proxy: FaultProxy, step: str, times: int, replace: bool
) -> None:
    """Once: it is repeated. For good: the provider looks before it claims that nothing was stored."""
    data = SMALL if step == "put" else LARGE
    proxy.on(TESTS[step], Lost(), turns=times)
    written = await put(provider, "file", data, replace=replace)
    assert await content(provider, "file") == data
    known = await provider.stat(at("file"))
    assert (known.etag, known.size, known.content_type) == (written.etag, len(data), "text/plain")


@pytest.mark.parametrize("step", ["put", "commit"])
async def test_a_busy_service_and_a_file_of_another_writer(
    provider: AzureBlobProvider, proxy: FaultProxy, step: str
) -> None:
    """A repeated request that finds the name taken looks whose file it is."""
    data = SMALL if step == "put" else LARGE
    await put(provider, "file", b"of another one")
    proxy.on(TESTS[step], BUSY)
    with pytest.raises(AlreadyExists):
        await put(provider, "file", data, replace=False)
    assert await content(provider, "file") == b"of another one"


@pytest.mark.parametrize("step", TESTS)
async def test_down_for_good(provider: AzureBlobProvider, proxy: FaultProxy, step: str) -> None:
    data = SMALL if step == "put" else LARGE
    await put(provider, "old", b"old")
    proxy.on(TESTS[step], BUSY, turns=1000)
    for path in ("old", "new"):
        with pytest.raises(ProviderUnavailable):
            await put(provider, path, data)
    assert await walk(provider) == [("old", False)]
    assert await content(provider, "old") == b"old"
    assert provider.memory._free == 512 * 2**20


@pytest.mark.parametrize("replace", [True, False])
async def test_another_writer_was_quicker(provider: AzureBlobProvider, proxy: FaultProxy, replace: bool) -> None:
    """The service drops the blocks of all others when one of them comes to its end."""

    async def overtaken() -> AsyncIterator[bytes]:
        yield LARGE
        while b"<Name>" not in await uncommitted(provider, "file"):
            await asyncio.sleep(0.05)
        await put(provider, "file", b"quicker")

    dropped = Reply(400, {"x-ms-error-code": "InvalidBlockList"})
    proxy.on(commit, dropped)
    if replace:
        entry = await provider.write(at("file"), overtaken(), "text/plain")
        assert (entry.name, entry.size) == ("file", len(LARGE))
    else:
        with pytest.raises(AlreadyExists):
            await provider.write(at("file"), overtaken(), "text/plain", WriteOptions(replace=False))
    assert await content(provider, "file") == b"quicker"


async def test_blocks_that_vanish_without_another_writer(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(commit, Reply(400, {"x-ms-error-code": "InvalidBlockList"}), turns=2)
    with pytest.raises(ProviderFailed):
        await put(provider, "new", LARGE)
    await put(provider, "old", b"old")
    await asyncio.sleep(2.1)  # the service's clock counts seconds
    with pytest.raises(ProviderFailed):
        await put(provider, "old", LARGE)
    assert await content(provider, "old") == b"old"


async def test_a_success_that_is_none(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    proxy.on(whole_put, Reply(200, {}, b"<Error><Code>InternalError</Code></Error>"))
    with pytest.raises(ProviderFailed):
        await put(provider, "file", SMALL)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("BlobImmutableDueToPolicy", NotPossible),
        ("LeaseIdMissing", NotPossible),
        ("InvalidBlobOrBlock", NotPossible),
        ("SomethingNew", ProviderFailed),
    ],
)
async def test_a_refusal(provider: AzureBlobProvider, proxy: FaultProxy, code: str, error: type[PorticoError]) -> None:
    proxy.on(whole_put, Reply(409, {"x-ms-error-code": code}, b"raw text of the service"))
    with pytest.raises(error) as caught:
        await put(provider, "file", SMALL)
    assert "raw text" not in f"{caught.value.detail} {caught.value.cause}"
    assert len([call for call in proxy.calls if whole_put(call)]) == 1


async def test_a_broken_or_cancelled_upload_leaves_no_blob(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    """Its blocks stay until the service drops them; nobody sees them."""

    async def broken() -> AsyncIterator[bytes]:
        yield LARGE
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await provider.write(at("broken"), broken(), "text/plain")

    async def endless() -> AsyncIterator[bytes]:
        yield LARGE
        await asyncio.Event().wait()

    task = asyncio.ensure_future(provider.write(at("cancelled"), endless(), "text/plain"))
    while len([call for call in proxy.calls if block(call) and "cancelled" in call.path]) < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await walk(provider) == []
    assert kinds(proxy.calls).count("commit") == 0
    assert provider.memory._free == 512 * 2**20
    await put(provider, "broken", LARGE)
    assert await content(provider, "broken") == LARGE


async def test_memory_is_bounded(container: str) -> None:
    provider = AzureBlobProvider(container, account_url=Azurite.running().url, account_key=KEY)
    total, chunk = 64 * 2**20, 256 * 1024
    await put(provider, "warm", SMALL)

    async def chunks() -> AsyncIterator[bytes]:
        for number in range(total // chunk):
            yield bytes([number % 256]) * chunk

    gc.collect()
    tracemalloc.start()
    try:
        entry = await provider.write(at("large"), chunks(), "text/plain")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        await provider.close()
    assert entry.size == total
    assert peak < MAX_UPLOAD_MEMORY + 8 * 2**20


def test_the_largest_file() -> None:
    assert AzureBlobProvider.max_file_size > 500 * 2**30
