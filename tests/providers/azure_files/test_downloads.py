import asyncio
import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from portico.model.errors import Changed, IsAFolder, NotFound, PorticoError, RangeNotSatisfiable
from portico.providers.azure_files.provider import AzureFilesProvider

from ...servers.azure_files import Answer, AzureFilesServer, Call, Share
from .actions import at, busy, failing, get, lost, put

MIB = 2**20


def connections(provider: AzureFilesProvider) -> int:
    """How many are in use."""
    session = provider._share._service._client._pipeline._transport.session
    return len(session.connector._acquired)


@pytest.fixture
async def content(provider: AzureFilesProvider) -> bytes:
    content = os.urandom(6 * MIB)
    await put(provider, "file", content)
    return content


async def test_a_download_is_one_call_in_pieces(
    provider: AzureFilesProvider, server: AzureFilesServer, content: bytes
) -> None:
    server.calls.clear()
    download = await provider.read(at("file"))
    pieces = [piece async for piece in download.chunks]
    assert b"".join(pieces) == content
    assert max(map(len, pieces)) <= MIB
    assert len(server.calls) == 1
    assert connections(provider) == 0


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize("pulls", [0, 1])
async def test_an_abandoned_download_gives_its_connection_back(provider: AzureFilesProvider, pulls: int) -> None:
    download = await provider.read(at("file"))
    for _ in range(pulls):
        await anext(aiter(download.chunks))
    assert connections(provider) == 1
    await download.chunks.aclose()
    await download.chunks.aclose()
    assert connections(provider) == 0
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(download.chunks))


@pytest.mark.usefixtures("content")
@pytest.mark.parametrize("cut", [0, 1, 3 * MIB, 6 * MIB - 1])
async def test_content_that_ends_early(provider: AzureFilesProvider, server: AzureFilesServer, cut: int) -> None:
    async def cutting(call: Call, work: Callable[[], Answer]) -> Answer | None:
        return replace(work(), cut=cut) if call.verb == "GET" else None

    server.fault = cutting
    with pytest.raises(PorticoError):
        await get(provider, "file")
    assert connections(provider) == 0


@pytest.mark.usefixtures("content")
async def test_a_changed_file_holds_no_connection(provider: AzureFilesProvider) -> None:
    with pytest.raises(Changed):
        await provider.read(at("file"), etag="another")
    with pytest.raises(Changed):
        await provider.read(at("file"), 6 * MIB, etag="another")
    assert connections(provider) == 0


async def test_ranges_without_bytes(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "file", b"12345")
    await put(provider, "empty", b"")
    share.make_folder(("folder",))
    for path, start, stop in (("file", 5, None), ("file", 5, 9), ("file", 2, 2), ("empty", 0, None), ("empty", 0, 1)):
        download = await provider.read(at(path), start, stop)
        assert (download.start, download.stop) == (start, start)
        assert [chunk async for chunk in download.chunks] == []
    for path, start, stop, error in (
        ("file", 6, None, RangeNotSatisfiable),
        ("file", 7, 7, RangeNotSatisfiable),
        ("missing", 2, 2, NotFound),
        ("folder", 0, 0, IsAFolder),
        ("folder", 1, None, IsAFolder),
    ):
        with pytest.raises(error):
            await provider.read(at(path), start, stop)
    assert connections(provider) == 0


async def test_busy_twice_or_lost_then_fine(
    provider: AzureFilesProvider, server: AzureFilesServer, content: bytes
) -> None:
    for fault in (failing("GET", busy, times=2), lost("GET", done=False)):
        server.fault = fault
        assert await get(provider, "file") == content
    assert connections(provider) == 0


async def test_many_at_once(provider: AzureFilesProvider, content: bytes) -> None:
    assert await asyncio.gather(*(get(provider, "file") for _ in range(10))) == [content] * 10
