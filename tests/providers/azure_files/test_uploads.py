import asyncio
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import pytest

from portico.model.errors import AlreadyExists, InvalidPath, NotFound, ProviderUnavailable
from portico.providers.azure_files.provider import AzureFilesProvider
from portico.providers.contract.uploads import WriteOptions

from ...servers.azure_files import Answer, AzureFilesServer, Call, Lost, Share
from .actions import RANGE, at, busy, failing, get, lost, pieces, put

MIB = 2**20
STAGING = "/.portico~staging"


def verbs(server: AzureFilesServer) -> list[str]:
    return [call.verb for call in server.calls]


def left(share: Share) -> list[str]:
    """Everything but the staging folder itself."""
    return [path for path in share.everything() if path != STAGING]


async def test_a_small_file_is_three_changes(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    share.make_folder((".portico~staging",))
    await put(provider, "small", b"123")
    assert [verb for verb in verbs(server) if verb.startswith("PUT")] == ["PUT", "PUT range", "PUT rename"]
    assert {call.method for call in server.calls[:3]} == {"HEAD", "GET"}
    assert left(share) == ["/small"]


@pytest.mark.parametrize("at_most", [None, 70 * MIB])
async def test_a_large_file_grows_in_steps_and_keeps_its_type(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, at_most: int | None
) -> None:
    content = os.urandom(10 * RANGE + 5)
    written = await provider.write(at("large"), pieces(content, MIB), "text/x-own", WriteOptions(at_most=at_most))
    assert await get(provider, "large") == content
    assert verbs(server).count("PUT range") == 11
    assert verbs(server).count("PUT properties") == 1  # to its size, at the end
    assert written.content_type == (await provider.stat(at("large"))).content_type == "text/x-own"
    assert (await provider.stat(at("large"))).etag == written.etag
    assert left(share) == ["/large"]


async def test_every_range_carries_what_the_service_verifies(
    provider: AzureFilesProvider, server: AzureFilesServer
) -> None:
    await put(provider, "file", os.urandom(2 * RANGE))
    ranges = [call for call in server.calls if call.verb == "PUT range"]
    assert all(call.headers["content-md5"] for call in ranges)
    assert all(call.headers["content-length"] == str(RANGE) for call in ranges)
    assert not any("transfer-encoding" in call.headers for call in ranges)


async def test_a_type_that_no_header_can_hold(provider: AzureFilesProvider) -> None:
    for odd in ("", "text/é", "text/plain\r\nx: y"):
        await provider.write(at("file"), pieces(b"1"), odd)
        assert (await provider.stat(at("file"))).content_type == "application/octet-stream"


@pytest.mark.parametrize("verb", ["PUT", "PUT range", "PUT properties", "PUT rename"])
async def test_busy_twice_then_fine(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, verb: str
) -> None:
    content = os.urandom(RANGE + 1)
    server.fault = failing(verb, busy, times=2)
    await put(provider, "new/file", content)
    assert await get(provider, "new/file") == content
    assert sorted(left(share)) == ["/new", "/new/file"]


@pytest.mark.parametrize("verb", ["PUT", "PUT range", "PUT properties", "PUT rename"])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("replace", [False, True])
async def test_a_connection_that_breaks(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, verb: str, done: bool, replace: bool
) -> None:
    content = os.urandom(RANGE + 1)
    if replace:
        await put(provider, "f/file", b"old")
    server.fault = lost(verb, done=done)
    written = await put(provider, "f/file", content, replace=replace)
    assert await get(provider, "f/file") == content
    known = await provider.stat(at("f/file"))
    assert (written.etag, written.size, written.content_type) == (known.etag, known.size, known.content_type)
    assert sorted(left(share)) == ["/f", "/f/file"]


async def test_another_file_that_took_the_name_is_not_taken_for_ours(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    async def overtaken(call: Call, _: Callable[[], Answer]) -> Answer | None:
        if call.verb == "PUT rename" and share.find(("file",)) is None:
            share.make_file(("file",), 3)
            raise Lost
        return None

    server.fault = overtaken
    with pytest.raises(AlreadyExists):
        await put(provider, "file", b"123", replace=False)
    assert await get(provider, "file") == bytes(3)
    assert left(share) == ["/file"]


@pytest.mark.parametrize("verb", ["PUT", "PUT range", "PUT properties", "PUT rename"])
async def test_down_for_good_leaves_the_old_file(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share, verb: str
) -> None:
    await put(provider, "file", b"old")
    server.fault = failing(verb, busy)
    with pytest.raises(ProviderUnavailable):
        await put(provider, "file", os.urandom(3 * RANGE))
    server.fault = None
    assert await get(provider, "file") == b"old"
    assert left(share) == ["/file"]


@pytest.mark.parametrize("size", [0, 10, 3 * RANGE])
async def test_a_client_that_goes_away(provider: AzureFilesProvider, share: Share, size: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        async for piece in pieces(bytes(size)):
            yield piece
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await provider.write(at("a/b"), broken(), "text/plain")
    assert left(share) == []
    assert not provider._memory._shares


async def test_a_cancelled_upload(provider: AzureFilesProvider, share: Share) -> None:
    halfway = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        async for piece in pieces(bytes(3 * RANGE)):
            yield piece
        halfway.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(provider.write(at("a/b"), endless(), "text/plain"))
    await halfway.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(share) == []
    assert not provider._memory._shares


async def test_what_could_not_be_removed_is_swept_when_it_is_old(
    provider: AzureFilesProvider, server: AzureFilesServer, share: Share
) -> None:
    assert await provider.sweep() == 0
    await put(provider, "kept", b"1")
    server.fault = _broken_but_for_looking
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            await put(provider, "file", b"123")
    server.fault = None
    staged = share.folder((".portico~staging",)).children
    assert len(staged) == 2
    assert await provider.sweep() == 0
    next(iter(staged.values())).written = datetime.now(UTC) - timedelta(hours=25)
    assert await provider.sweep() == 1
    assert len(staged) == 1
    assert await get(provider, "kept") == b"1"


async def _broken_but_for_looking(call: Call, _: Callable[[], Answer]) -> Answer | None:
    return busy() if call.verb in ("PUT rename", "DELETE") else None


async def test_what_is_left_of_a_deletion_is_swept(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "file", b"1")
    for path in (("old",), ("old", "sub"), ("old", "sub", "deeper")):
        share.make_folder((".portico~staging", *path))
        share.make_file((".portico~staging", *path, "x"), 1)
    assert await provider.sweep() == 1
    assert left(share) == ["/file"]


async def test_a_large_upload_takes_little_memory(provider: AzureFilesProvider, server: AzureFilesServer) -> None:
    held = 0
    piece = bytes(256 * 1024)
    size = 192 * MIB

    async def swallow(call: Call, _: Callable[[], Answer]) -> Answer | None:
        answers = {"PUT": 201, "PUT range": 201, "PUT properties": 200, "PUT rename": 200}
        return Answer(answers[call.verb]) if call.verb in answers else None

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal held
        for _ in range(size // len(piece)):
            held = max(held, sum(lease.held for lease in provider._memory._shares))
            yield bytes(bytearray(piece))  # a copy, as each chunk of a client is

    server.fault = swallow
    tracemalloc.start()
    try:
        written = await provider.write(at("large"), chunks(), "text/plain")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert written.size == size
    assert held <= 32 * MIB
    assert peak < 96 * MIB  # with what the server of this process reads


# Names


async def test_a_name_is_not_taken_over_by_another_spelling(provider: AzureFilesProvider, share: Share) -> None:
    await put(provider, "f/readme", b"old")
    for path in ("f/README", "F/ReadMe"):
        with pytest.raises(InvalidPath, match="case"):
            await put(provider, path, b"new")
        with pytest.raises(AlreadyExists):
            await put(provider, path, b"new", replace=False)
    await put(provider, "F/readme", b"new")
    assert await get(provider, "f/readme") == b"new"
    assert sorted(left(share)) == ["/f", "/f/readme"]


@pytest.mark.parametrize("name", ['a"b', "a:b", "a|b", "a<b", "a>b", "a*b", "a?b", "x" * 256, "😀" * 128])
async def test_names_that_the_service_cannot_hold(
    provider: AzureFilesProvider, server: AzureFilesServer, name: str
) -> None:
    await put(provider, "file", b"1")
    server.calls.clear()
    for path in (name, f"{name}/file"):
        with pytest.raises(InvalidPath):
            await put(provider, path)
        with pytest.raises(InvalidPath):
            await provider.make_folder(at(path))
        with pytest.raises(NotFound):
            await provider.stat(at(path))
        with pytest.raises(NotFound):
            await provider.read(at(path))
        with pytest.raises(NotFound):
            await provider.delete(at(path), recursive=True)
        with pytest.raises(NotFound):
            await provider.list_page(at(path), 10, None)
    assert server.calls == []
    for transfer in (provider.copy, provider.move):
        with pytest.raises(InvalidPath):
            await transfer(at("file"), at(name))


@pytest.mark.parametrize("name", ["NUL", "com1", "\ue000"])
async def test_names_that_only_the_service_knows_to_be_wrong(provider: AzureFilesProvider, name: str) -> None:
    with pytest.raises(InvalidPath):
        await put(provider, name, b"1")
    with pytest.raises(InvalidPath):
        await provider.make_folder(at(name))


async def test_paths_that_are_too_long(provider: AzureFilesProvider) -> None:
    for path in ("/".join(["x" * 250] * 9), "/".join(["x"] * 251)):
        with pytest.raises(InvalidPath):
            await put(provider, path)


async def test_our_own_folder_is_out_of_reach_whatever_its_case(provider: AzureFilesProvider, share: Share) -> None:
    share.make_folder((".portico~staging",))
    share.make_file((".portico~staging", "secret"), 1)
    for path in (".Portico~staging", ".PORTICO~STAGING/secret", ".port\u0131co~staging/secret"):
        with pytest.raises(NotFound):
            await provider.stat(at(path))
        with pytest.raises(NotFound):
            await provider.read(at(path))
        with pytest.raises(NotFound):
            await provider.delete(at(path), recursive=True)
        with pytest.raises(InvalidPath):
            await put(provider, path)
    assert "/.portico~staging/secret" in list(share.everything())
