"""Checksums of what arrives, computed in passing and off the event loop."""

import asyncio
import hashlib
import zlib
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec

from portico.errors import ChecksumMismatch, InvalidRequest

_BATCH = 2**20
_INLINE = 64 * 1024
"""Up to this size, hashing takes less time than the hop to a thread."""


class _Crc:
    """A CRC in the shape of `hashlib`."""

    digest_size = 4

    def __init__(self, extend: Callable[[bytes, int], int]) -> None:
        self._extend = extend
        self._value = 0

    def update(self, chunk: bytes) -> None:
        self._value = self._extend(chunk, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


def _crc32c() -> _Crc:
    from google_crc32c import extend

    return _Crc(lambda chunk, value: extend(value, chunk))


_ALGORITHMS: dict[str, Callable[[], "hashlib._Hash | _Crc"]] = {
    "sha256": hashlib.sha256,
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "md5": lambda: hashlib.md5(usedforsecurity=False),
    "crc32": lambda: _Crc(zlib.crc32),
    **({"crc32c": _crc32c} if find_spec("google_crc32c") else {}),
}
CHECKSUM_ALGORITHMS = tuple(_ALGORITHMS)


class Checksum:
    """What the bytes of one request must add up to."""

    def __init__(self, algorithm: str, expected: str) -> None:
        """`expected` is in Base64. `InvalidRequest` if it is malformed or the algorithm is not known."""
        name = algorithm.lower().replace("-", "")
        if name not in _ALGORITHMS:
            raise InvalidRequest(
                f"The checksum algorithm is not supported; use one of {', '.join(CHECKSUM_ALGORITHMS)}."
            )
        self._hash = _ALGORITHMS[name]()
        try:
            self._expected = b64decode(expected, validate=True)
        except ValueError:
            self._expected = b""
        if len(self._expected) != self._hash.digest_size:
            raise InvalidRequest(
                f"The checksum is malformed; write the {self._hash.digest_size} bytes in Base64."
            )
        self._batch: list[bytes] = []
        self._size = 0

    async def watch(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, counted in as they pass."""
        async for chunk in chunks:
            await self._update(chunk)
            yield chunk

    async def _update(self, chunk: bytes) -> None:
        self._batch.append(chunk)
        self._size += len(chunk)
        if self._size >= _BATCH:
            await self._add()

    async def check(self) -> None:
        await self._add()
        if self._hash.digest() != self._expected:
            raise ChecksumMismatch(
                "What arrived does not match its checksum; nothing of it was kept, send it again."
            )

    async def _add(self) -> None:
        batch, size = self._batch, self._size
        self._batch, self._size = [], 0
        if size <= _INLINE:
            self._hash_all(batch)
        else:
            await asyncio.to_thread(self._hash_all, batch)

    def _hash_all(self, batch: list[bytes]) -> None:
        for chunk in batch:
            self._hash.update(chunk)
