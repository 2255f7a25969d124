import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack

import pytest

from portico.providers.local import uploads
from portico.providers.local.provider import LocalProvider
from portico.providers.local.uploads import MAX_BUFFER, MIN_BUFFER, WriteBuffers

from .actions import at


def test_the_more_uploads_the_less_each_buffers() -> None:
    buffers = WriteBuffers(16 * MAX_BUFFER)
    assert buffers.size == MAX_BUFFER
    with ExitStack() as running:
        seen = []
        for number in range(1, 1001):
            running.enter_context(buffers.upload())
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


async def test_what_is_written_is_let_go_of_while_the_next_chunk_is_waited_for(provider: LocalProvider) -> None:
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


async def test_of_many_uploads_none_takes_more_before_its_buffer_is_written(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write, asked = threading.Event(), 0
    write = uploads.write_buffers

    def paused(file: int, buffers: Sequence[bytes]) -> int:
        may_write.wait(60)
        return write(file, buffers)

    monkeypatch.setattr(uploads, "write_buffers", paused)

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal asked
        for _ in range(2):
            asked += 1
            yield b"x" * MAX_BUFFER

    async def taken() -> int:
        """Chunks that an upload has taken before anything is written."""
        nonlocal asked
        asked = 0
        may_write.clear()
        writing = asyncio.ensure_future(provider.write(at("file"), chunks(), "text/plain"))
        for _ in range(20):
            await asyncio.sleep(0)
        found = asked
        may_write.set()
        assert (await writing).size == 2 * MAX_BUFFER
        return found

    assert await taken() == 2
    with ExitStack() as others:
        for _ in range(100):
            others.enter_context(provider._buffers.upload())
        assert await taken() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="a hint to Linux")
@pytest.mark.parametrize("resumable", [False, True])
async def test_the_disk_begins_before_the_end(
    provider: LocalProvider, monkeypatch: pytest.MonkeyPatch, resumable: bool
) -> None:
    begun: list[tuple[int, int]] = []

    def note(file: int, start: int, length: int, advice: int) -> None:
        begun.append((start, start + length))

    monkeypatch.setattr(os, "posix_fadvise", note)
    monkeypatch.setattr(uploads, "WRITEBACK_BYTES", 4 * MAX_BUFFER)
    odd = MAX_BUFFER + 1000

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"x" * odd

    async def save(*, last: bool = False) -> None:
        pass

    if resumable:
        upload = await provider.begin_upload(at("file"), "text/plain")
        await upload.append(chunks(), save)
        await upload.finish(save)
    else:
        await provider.write(at("file"), chunks(), "text/plain")
    # Each byte once, and no part that is not complete.
    assert begun == [(0, 4 * MAX_BUFFER), (4 * MAX_BUFFER, 8 * MAX_BUFFER)]
    assert (await provider.stat(at("file"))).size == 9 * odd
