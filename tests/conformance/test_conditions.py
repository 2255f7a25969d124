"""A file is replaced only if it is the version that the client has seen."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from portico.model.errors import Changed, NotFound
from portico.providers.contract.provider import Provider
from portico.providers.contract.uploads import WriteOptions

from .actions import at, noise, pieces
from .harness import Harness
from .test_resumable import stored

TYPE = "application/octet-stream"
TARGET = at("docs/plan.txt")


@pytest.mark.parametrize("large", [False, True], ids=["small", "parts"])
async def test_the_version_that_was_seen_is_replaced(provider: Provider, harness: Harness, large: bool) -> None:
    content = noise(harness.part + 7 if large else 10)
    first = await provider.write(TARGET, pieces(b"first"), TYPE)
    second = await provider.write(TARGET, pieces(content), TYPE, WriteOptions(if_match=first.etag))
    assert second.etag != first.etag
    assert await stored(provider, TARGET) == content
    with pytest.raises(Changed):
        await provider.write(TARGET, pieces(b"third"), TYPE, WriteOptions(if_match=first.etag))
    assert await stored(provider, TARGET) == content


async def test_a_file_that_is_gone_is_not_made_again(provider: Provider) -> None:
    first = await provider.write(TARGET, pieces(b"first"), TYPE)
    await provider.delete(TARGET)
    with pytest.raises(Changed):
        await provider.write(TARGET, pieces(b"second"), TYPE, WriteOptions(if_match=first.etag))
    with pytest.raises(NotFound):
        await provider.stat(TARGET)


@pytest.mark.parametrize("large", [False, True], ids=["small", "parts"])
async def test_a_change_while_the_content_arrives_is_noticed(provider: Provider, harness: Harness, large: bool) -> None:
    content = noise(harness.part + 7 if large else 10)
    first = await provider.write(TARGET, pieces(b"first"), TYPE)
    arriving, changed = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        async for piece in pieces(content):
            yield piece
        arriving.set()
        await changed.wait()

    writing = asyncio.ensure_future(provider.write(TARGET, slow(), TYPE, WriteOptions(if_match=first.etag)))
    await arriving.wait()
    await provider.write(TARGET, pieces(b"another"), TYPE)
    changed.set()
    with pytest.raises(Changed):
        await writing
    assert await stored(provider, TARGET) == b"another"
