import pytest

from portico.model.errors import Changed, NotPossible, ProviderFailed, ProviderTimeout, ProviderUnavailable
from portico.providers.azure_blob.provider import AzureBlobProvider

from ...servers.proxy import Call, Cut, FaultProxy, Lost, Reply, Silent
from .actions import at, content, listing, put

DATA = bytes(range(256)) * 8192


def get(call: Call) -> bool:
    return call.method == "GET" and not listing(call)


async def connections(provider: AzureBlobProvider) -> int:
    """Those in use."""
    return len(provider._service._client._pipeline._transport.session.connector._acquired)


async def test_a_broken_download_goes_on_where_it_was(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "file", DATA)
    proxy.on(get, Cut(100_000), Cut(0), Cut(500_000), Lost())
    assert await content(provider, "file") == DATA
    ranges = [call.headers.get("x-ms-range") for call in proxy.calls if get(call)]
    assert ranges[0] is None
    assert ranges[1] == ranges[2] == f"bytes=100000-{len(DATA) - 1}"
    assert all("if-match" in call.headers for call in proxy.calls if get(call) and call.headers.get("x-ms-range"))


async def test_a_download_never_mixes_versions(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "file", DATA)
    proxy.on(get, Cut(100_000))
    download = await provider.read(at("file"))
    begin = await anext(download.chunks)
    await put(provider, "file", DATA[::-1])
    assert DATA.startswith(begin)
    with pytest.raises(Changed):
        b"".join([chunk async for chunk in download.chunks])
    await download.chunks.aclose()


async def test_a_download_that_cannot_be_finished(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "file", DATA)
    proxy.on(get, Cut(10))
    proxy.on(get, Cut(0), turns=100)
    with pytest.raises(ProviderUnavailable):
        await content(provider, "file")


async def test_an_abandoned_download_gives_its_connection_back(provider: AzureBlobProvider) -> None:
    await put(provider, "file", DATA * 4)
    untouched = await provider.read(at("file"))
    begun = await provider.read(at("file"))
    assert await anext(begun.chunks)
    assert await connections(provider) == 2
    await untouched.chunks.aclose()
    await begun.chunks.aclose()
    assert await connections(provider) == 0
    assert await content(provider, "file") == DATA * 4
    assert await connections(provider) == 0


async def test_nobody_waits_for_those_who_download(provider: AzureBlobProvider) -> None:
    await put(provider, "file", DATA * 4)
    slow = [await provider.read(at("file")) for _ in range(120)]
    assert (await provider.stat(at("file"))).size == len(DATA) * 4
    for download in slow:
        await download.chunks.aclose()


async def test_an_empty_range_and_an_empty_file(provider: AzureBlobProvider) -> None:
    await put(provider, "file", b"12345")
    await put(provider, "empty")
    for path, start, stop in (("file", 5, None), ("file", 2, 2), ("empty", 0, None), ("empty", 0, 10)):
        download = await provider.read(at(path), start, stop)
        assert download.start == download.stop == start
        assert [chunk async for chunk in download.chunks] == []
        await download.chunks.aclose()
    entry = (await provider.read(at("file"), 5)).entry
    assert (entry.size, entry.content_type) == (5, "text/plain")
    with pytest.raises(Changed):
        await provider.read(at("file"), 5, etag="other")


async def test_a_file_in_the_archive(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "file", b"12345")
    proxy.on(get, Reply(409, {"x-ms-error-code": "BlobArchived"}, b"This operation is not permitted"))
    with pytest.raises(NotPossible, match="archive"):
        await provider.read(at("file"))
    assert await connections(provider) == 0


async def test_content_without_its_size(provider: AzureBlobProvider, proxy: FaultProxy) -> None:
    await put(provider, "file", b"12345")
    proxy.on(get, Reply(206, {"Content-Range": "bytes 0-4/*"}, b"12345"))
    with pytest.raises(ProviderFailed):
        await provider.read(at("file"))
    assert await connections(provider) == 0


async def test_a_silent_service(
    provider: AzureBlobProvider, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider._service, "timeout", 0.2)
    proxy.on(lambda _: True, Silent(), turns=100)
    with pytest.raises(ProviderTimeout):
        await provider.stat(at("file"))
    with pytest.raises(ProviderTimeout):
        await provider.read(at("file"))
