"""An object's content on its way out."""

from collections.abc import AsyncIterator
from typing import Any, Self

from portico.providers.answers import nonsense
from portico.providers.s3.faults import translated

_CHUNK = 2**20


class Content:
    """The body of an answer, which holds a connection until it is closed or read to its end."""

    def __init__(self, body: Any, size: int) -> None:
        self._body = body
        self._left = size

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            await self.aclose()
            raise StopAsyncIteration
        with translated():
            chunk: bytes = await self._body.read(min(_CHUNK, self._left))
        if not chunk:
            await self.aclose()
            raise nonsense("less content than it had announced")
        self._left -= len(chunk)
        return chunk

    async def aclose(self) -> None:
        self._left = 0
        self._body.close()


class NoContent:
    """What is left of a file from its end on."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        return
