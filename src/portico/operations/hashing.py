"""`Hashing`: the digests of one content as its bytes pass by, computed off the event loop."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from portico.errors import DigestMismatch

ALGORITHMS = {"sha-512": "sha512", "sha-256": "sha256", "sha": "sha1", "md5": "md5"}
"""Those of the IANA registry that the standard library computes, by its names for them."""
SHA_256 = "sha-256"

_HASHED_HERE = 64 * 1024
_BATCH = 256 * 1024
"""Bytes for which a thread is worth its price. They are held a little longer than they would be without a digest."""


@dataclass(frozen=True, slots=True)
class ExpectedDigest:
    """A digest that was announced, and by what."""

    field: str
    algorithm: str
    value: bytes


class Hashing:
    def __init__(self, expected: Collection[ExpectedDigest] = (), *, sha256: bool = False) -> None:
        """With `sha256`, that digest is computed even if it is not expected."""
        self._expected = expected
        algorithms = {each.algorithm for each in expected} | ({SHA_256} if sha256 else set())
        self._hashes = {
            name: hashlib.new(ALGORITHMS[name], usedforsecurity=False) for name in sorted(algorithms)
        }
        self._batch: list[bytes] = []
        self._size = 0

    async def watch(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in body:
            await self.update(chunk)
            yield chunk

    async def update(self, chunk: bytes) -> None:
        self._batch.append(chunk)
        self._size += len(chunk)
        if self._size >= _BATCH:
            await self._hash()

    async def check(self) -> None:
        """`DigestMismatch` unless all bytes together are what was announced."""
        await self._hash()
        for expected in self._expected:
            if self._hashes[expected.algorithm].digest() != expected.value:
                raise DigestMismatch(
                    f"What arrived does not match its {expected.field} ({expected.algorithm}); nothing of it was "
                    "stored, send it again."
                )

    @property
    def sha256(self) -> bytes | None:
        """After `check`: the SHA-256, if it was computed."""
        return self._hashes[SHA_256].digest() if SHA_256 in self._hashes else None

    async def _hash(self) -> None:
        batch, size = self._batch, self._size
        self._batch, self._size = [], 0
        if size <= _HASHED_HERE:
            self._add(batch)
        else:
            await asyncio.to_thread(self._add, batch)

    def _add(self, batch: list[bytes]) -> None:
        for digest in self._hashes.values():
            for chunk in batch:
                digest.update(chunk)
