import random
from typing import Any

import pytest

from portico.model.errors import Changed, PorticoError, ProviderFailed, RangeNotSatisfiable
from portico.providers.s3.provider import S3Provider

from ...servers.proxy import Call, Cut, FaultProxy, Reply
from .actions import at, content, error, put, said

DATA = random.Random(3).randbytes(3 * 2**20)


def reading(call: Call) -> bool:
    return call.method == "GET" and not call.query


def busy_connections(provider: S3Provider) -> int:
    sessions: dict[Any, Any] = provider._service._client._endpoint.http_session._sessions
    return sum(len(session.connector._acquired) for session in sessions.values())


async def test_an_abandoned_download_gives_its_connection_back(provider: S3Provider) -> None:
    await put(provider, "file", DATA)
    untouched = await provider.read(at("file"))
    assert busy_connections(provider) == 1
    await untouched.chunks.aclose()
    assert busy_connections(provider) == 0
    begun = await provider.read(at("file"))
    assert 0 < len(await anext(aiter(begun.chunks))) <= 2**20
    await begun.chunks.aclose()
    await begun.chunks.aclose()
    assert busy_connections(provider) == 0
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(begun.chunks))
    assert await content(provider, "file") == DATA
    assert busy_connections(provider) == 0


async def test_content_that_ends_early_is_reported(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "file", DATA)
    proxy.on(reading, Cut(after=2**20))
    with pytest.raises(PorticoError):
        await content(provider, "file")
    assert busy_connections(provider) == 0


async def test_a_read_that_fails_at_first_is_repeated(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "file", DATA)
    proxy.on(reading, said(503, error("SlowDown")), turns=2)
    assert await content(provider, "file") == DATA


async def test_a_service_that_ignores_ranges_is_not_believed(provider: S3Provider, proxy: FaultProxy) -> None:
    await put(provider, "file", b"0123456789")
    whole = {"ETag": '"e"', "Last-Modified": "Sun, 15 Nov 2026 00:00:00 GMT"}
    proxy.on(reading, Reply(200, whole, b"0123456789"))
    with pytest.raises(ProviderFailed):
        await provider.read(at("file"), 2, 4)
    assert busy_connections(provider) == 0


async def test_a_service_that_ignores_the_version_is_not_believed(provider: S3Provider, proxy: FaultProxy) -> None:
    entry = await put(provider, "file", b"0123456789")
    newer = {"ETag": '"e"', "Last-Modified": "Sun, 15 Nov 2026 00:00:00 GMT", "Content-Range": "bytes 2-3/10"}
    proxy.on(reading, Reply(206, newer, b"23"))
    with pytest.raises(Changed):
        await provider.read(at("file"), 2, 4, etag=entry.etag)
    assert busy_connections(provider) == 0


async def test_the_end_of_a_file(provider: S3Provider) -> None:
    entry = await put(provider, "file", b"12345")
    for start, stop in ((5, None), (5, 9), (2, 2)):
        download = await provider.read(at("file"), start, stop, etag=entry.etag)
        assert [chunk async for chunk in download.chunks] == []
        assert (download.start, download.stop, download.entry.size) == (start, start, 5)
        await download.chunks.aclose()
    with pytest.raises(RangeNotSatisfiable) as caught:
        await provider.read(at("file"), 6)
    assert caught.value.size == 5
    with pytest.raises(Changed):
        await provider.read(at("file"), 5, etag="another")


async def test_an_empty_file_has_an_empty_range(provider: S3Provider) -> None:
    await put(provider, "file", b"")
    for start, stop in ((0, None), (0, 10)):
        download = await provider.read(at("file"), start, stop)
        assert [chunk async for chunk in download.chunks] == []
        await download.chunks.aclose()
