import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from portico.providers.local import LocalProvider
from portico.providers.local.uploads import MAX_BUFFER, MIN_BUFFER, WriteBuffers

from .actions import at


def test_the_more_uploads_the_less_each_buffers() -> None:
    buffers = WriteBuffers(16 * MAX_BUFFER)
    assert buffers.size == MAX_BUFFER
    with ExitStack() as uploads:
        seen = []
        for number in range(1, 1001):
            uploads.enter_context(buffers.upload())
            seen.append(buffers.size)
            assert number * 2 * buffers.size <= 16 * MAX_BUFFER or buffers.size == MIN_BUFFER
        assert seen == sorted(seen, reverse=True)
        assert (seen[7], seen[15], seen[-1]) == (MAX_BUFFER, MAX_BUFFER // 2, MIN_BUFFER)
    assert buffers.size == MAX_BUFFER


async def test_an_upload_counts_until_its_end_whatever_that_is(provider: LocalProvider) -> None:
    seen: list[int] = []

    async def chunks(*, broken: bool) -> AsyncIterator[bytes]:
        seen.append(provider._buffers._uploads)
        yield b"x"
        if broken:
            raise ValueError("no more")

    await provider.write(at("whole"), chunks(broken=False), "text/plain")
    with pytest.raises(ValueError, match="no more"):
        await provider.write(at("broken"), chunks(broken=True), "text/plain")
    assert seen == [1, 1]
    assert provider._buffers._uploads == 0


async def test_what_is_written_is_let_go_of_while_the_next_chunk_is_waited_for(
    provider: LocalProvider,
) -> None:
    gone, goes_on = threading.Event(), asyncio.Event()

    class Chunk(bytes):
        def __del__(self) -> None:
            gone.set()

    async def chunks() -> AsyncIterator[bytes]:
        yield Chunk(MAX_BUFFER)
        await goes_on.wait()

    writing = asyncio.ensure_future(provider.write(at("file"), chunks(), "text/plain"))
    assert await asyncio.to_thread(gone.wait, 60)
    goes_on.set()
    assert (await writing).size == MAX_BUFFER
