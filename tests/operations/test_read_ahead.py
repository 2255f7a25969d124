import asyncio
from collections.abc import AsyncIterator

import pytest

from portico.operations.uploads.body import ReadAhead


class Body:
    """Chunks that arrive when a test says so; an exception is raised in its place."""

    def __init__(self, *arrived: bytes | Exception) -> None:
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.asked = 0
        self.left = False
        for each in arrived:
            self.arrive(each)

    def arrive(self, chunk: bytes | Exception | None) -> None:
        self._queue.put_nowait(chunk)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self.asked += 1
        try:
            found = await self._queue.get()
        except asyncio.CancelledError:
            self.left = True
            raise
        if found is None:
            self.arrive(None)  # it stays at its end
            raise StopAsyncIteration
        if isinstance(found, Exception):
            raise found
        return found


async def settled() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_all_chunks_in_order() -> None:
    body = Body(b"a", b"b", b"c")
    async with ReadAhead(body) as ahead:
        await settled()
        body.arrive(b"d")
        assert await anext(ahead) == b"a"
        body.arrive(None)
        assert [chunk async for chunk in ahead] == [b"b", b"c", b"d"]
        with pytest.raises(StopAsyncIteration):
            await anext(ahead)


async def test_it_takes_no_more_than_its_limit() -> None:
    body = Body(*[b"12345"] * 9)
    async with ReadAhead(body, 10) as ahead:
        await settled()
        assert body.asked == 2
        await anext(ahead)
        await settled()
        assert body.asked == 2, "once it is wanted, it is read as it is asked for"


async def test_an_error_comes_in_its_place() -> None:
    body = Body(b"a", ConnectionResetError(), b"b")
    async with ReadAhead(body) as ahead:
        await settled()
        assert await anext(ahead) == b"a"
        with pytest.raises(ConnectionResetError):
            await anext(ahead)


async def test_a_refusal_ends_the_reading() -> None:
    body = Body(b"a")
    async with ReadAhead(body):
        await settled()
        assert body.asked == 2
    assert body.left, "nobody reads the body any more"
    async with ReadAhead(Body(ConnectionResetError())):
        await settled()  # an error that nobody asks for is no warning


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    body = Body()

    async def read() -> None:
        async with ReadAhead(body) as ahead:
            await anext(ahead)

    reading = asyncio.create_task(read())
    await settled()
    reading.cancel()
    await asyncio.wait([reading])
    assert body.left
    assert reading.cancelled()
