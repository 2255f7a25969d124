"""The body of a request as the list of chunks that arrived, without joining them."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from zlib import crc32

from portico.providers.parts import MIB, UploadPart

_YIELD_BYTES = 4 * MIB
"""Bytes that are hashed before the event loop runs other tasks."""


class Body:
    """A file to the SDK, and a stream to the transport. It can be sent again."""

    def __init__(self, part: UploadPart, progress: Callable[[], None]) -> None:
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

    # The SDK uses these to sign the body without TLS. A position is the index of a chunk.

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


async def checksum(part: UploadPart) -> str:
    """The CRC-32 in base64, as the service expects it."""
    value = hashed = 0
    for chunk in part.chunks:
        value = crc32(chunk, value)
        hashed += len(chunk)
        if hashed >= _YIELD_BYTES:
            hashed = 0
            await asyncio.sleep(0)
    return b64encode(value.to_bytes(4, "big")).decode()
