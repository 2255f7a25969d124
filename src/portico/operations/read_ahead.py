"""`ReadAhead`: the beginning of a body, taken while it is still decided what becomes of it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

READ_AHEAD_BYTES = 2**18


class ReadAhead:
    """The chunks of a body. From the begin of its context until the first is asked for, it takes some in advance."""

    def __init__(self, chunks: AsyncIterator[bytes], most: int = READ_AHEAD_BYTES) -> None:
        """It stops with the chunk that makes it `most` bytes or more."""
        self._chunks = chunks
        self._left = most
        self._taken: deque[bytes] = deque()
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Nobody else may read the body before this has ended."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            if not self._reading.cancelled():
                self._reading.exception()  # it is retrieved
            self._reading = None
        self._taken.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._left = 0
        if self._taken:
            return self._taken.popleft()
        if self._reading is not None:
            reading, self._reading = self._reading, None
            await reading
            if self._taken:
                return self._taken.popleft()
        return await anext(self._chunks)

    async def _read(self) -> None:
        """Its error is raised where the chunk would have been."""
        while self._left > 0:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                return
            self._left -= len(chunk)
            self._taken.append(chunk)
