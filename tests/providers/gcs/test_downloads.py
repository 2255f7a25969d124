from contextlib import aclosing

import pytest

from portico.model.entries import Download
from portico.model.errors import Changed, ProviderFailed, ProviderUnavailable, RangeNotSatisfiable
from portico.providers.gcs.provider import GcsProvider

from ...servers.gcs import Answer, CutBody, Fault, GcsServer, Status
from ...servers.gcs.buckets import Bucket, Content, StoredObject
from .actions import at, content, noise, put

MIB = 2**20
DATA = noise(6 * MIB)
MEDIA = "alt=media"


async def rest(download: Download) -> bytes:
    async with aclosing(download.chunks) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_download_asks_for_content_and_metadata(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", DATA)
    server.calls.clear()
    assert await content(provider, "f") == DATA
    assert len(server.calls) == 2


async def test_chunks_are_not_large(provider: GcsProvider) -> None:
    await put(provider, "f", DATA)
    download = await provider.read(at("f"))
    async with aclosing(download.chunks) as chunks:
        assert max([len(chunk) async for chunk in chunks]) <= MIB


@pytest.mark.parametrize("span", [(0, None), (5, 5 * MIB), (2 * MIB, None)])
async def test_a_connection_that_breaks_is_replaced(
    server: GcsServer, provider: GcsProvider, span: tuple[int, int | None]
) -> None:
    await put(provider, "f", DATA)
    server.faults.append(Fault(CutBody(MIB), "GET", MEDIA, times=2))
    assert await rest(await provider.read(at("f"), *span)) == DATA[slice(*span)]


async def test_503_twice_then_fine(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", DATA)
    server.faults.append(Fault(Status(503), "GET", MEDIA, times=2))
    assert await content(provider, "f") == DATA


async def test_a_connection_that_breaks_for_good(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", DATA)
    server.faults.append(Fault(CutBody(MIB), "GET", MEDIA))
    server.faults.append(Fault(Status(503), "GET", MEDIA, times=99))
    download = await provider.read(at("f"))
    with pytest.raises(ProviderUnavailable):
        await rest(download)


async def test_versions_are_never_mixed(server: GcsServer, provider: GcsProvider) -> None:
    await put(provider, "f", DATA)
    server.faults.append(Fault(CutBody(MIB), "GET", MEDIA))
    download = await provider.read(at("f"))
    await put(provider, "f", DATA[::-1])
    with pytest.raises(Changed):
        await rest(download)


async def test_content_that_was_damaged(bucket: Bucket, provider: GcsProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(provider, "f", DATA)
    monkeypatch.setattr(Content, "crc32c", "AAAAAA==")
    with pytest.raises(ProviderFailed):
        await content(provider, "f")
    assert await rest(await provider.read(at("f"), 1)) == DATA[1:]  # which a part cannot tell


@pytest.mark.parametrize("body", [b"short", b""])
async def test_an_answer_that_is_no_object(server: GcsServer, provider: GcsProvider, body: bytes) -> None:
    await put(provider, "f", DATA)
    server.faults.append(Fault(Answer(body), "GET", MEDIA, times=2))
    with pytest.raises(ProviderFailed):
        await provider.read(at("f"))
    with pytest.raises(ProviderFailed):
        await provider.read(at("f"), 3)


async def test_nothing_is_kept_open(provider: GcsProvider) -> None:
    await put(provider, "f", DATA)
    for started in (False, True):
        download = await provider.read(at("f"))
        if started:
            await anext(download.chunks)
        await download.chunks.aclose()
        await download.chunks.aclose()
    session = provider._service._session
    assert session is not None
    assert session.connector is not None
    assert not session.connector._acquired


async def test_empty_spans(provider: GcsProvider) -> None:
    await put(provider, "f", b"12345")
    await put(provider, "empty")
    for path, span in (("f", (5, None)), ("f", (2, 2)), ("empty", (0, None)), ("empty", (0, 9)), ("f", (0, 0))):
        assert await rest(await provider.read(at(path), *span)) == b""
    with pytest.raises(RangeNotSatisfiable):
        await provider.read(at("empty"), 1)
    for etag in ("1", "not-a-number"):
        with pytest.raises(Changed):
            await provider.read(at("f"), etag=etag)


async def test_what_is_stored_packed_comes_as_it_is_stored(bucket: Bucket, provider: GcsProvider) -> None:
    bucket.put(StoredObject(bucket.name, "f", Content(b"packed"), "text/plain", {}, "gzip"))
    assert await content(provider, "f") == b"packed"
    assert (await provider.stat(at("f"))).size == 6


async def test_an_object_without_a_type(bucket: Bucket, provider: GcsProvider) -> None:
    bucket.put(StoredObject(bucket.name, "f.pdf", Content(b""), None, {}))
    (listed,) = (await provider.list_page(at("/"), 10, None)).entries
    assert listed.content_type == (await provider.stat(at("f.pdf"))).content_type == "application/pdf"


async def test_a_download_without_a_date(server: GcsServer, bucket: Bucket, provider: GcsProvider) -> None:
    await put(provider, "f", b"1")
    bucket.dates_downloads = False
    download = await provider.read(at("f"))
    assert download.entry.modified == (await provider.stat(at("f"))).modified
    assert await rest(download) == b"1"
