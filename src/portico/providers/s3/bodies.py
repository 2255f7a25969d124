"""The body of a request as the list of chunks that arrived, never joined."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from zlib import crc32

from portico.providers.parts import MIB, Part

_STRETCH = 4 * MIB
"""Bytes that are hashed before others get their turn."""


class Body:
    """What the SDK takes for a file, and the transport for a stream. It may be sent again."""

    def __init__(self, part: Part, progress: Callable[[], None]) -> None:
        self._chunks = part.chunks
        self._size = part.size
        self._progress = progress
        self._next = 0

    def __len__(self) -> int:
        return self._size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self._progress()
            yield chunk
        self._progress()

    # The SDK signs by these where there is no TLS. A position is the number of a chunk.

    def read(self, _: int = -1) -> bytes:
        while self._next < len(self._chunks):
            self._next += 1
            if chunk := self._chunks[self._next - 1]:
                return chunk
        return b""

    def tell(self) -> int:
        return self._next

    def seek(self, position: int, _: int = 0) -> int:
        self._next = position
        return position


async def checksum(part: Part) -> str:
    """The CRC-32 as the service wants to see it."""
    value = hashed = 0
    for chunk in part.chunks:
        value = crc32(chunk, value)
        hashed += len(chunk)
        if hashed >= _STRETCH:
            hashed = 0
            await asyncio.sleep(0)
    return b64encode(value.to_bytes(4, "big")).decode()
