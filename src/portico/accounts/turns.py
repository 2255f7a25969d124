"""One at a time under each key, in the order in which they came."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class LineFull(Exception):
    """As many as may are there already."""


class Turns:
    def __init__(self, most: int) -> None:
        """So many may be there under one key, with the one whose turn it is."""
        self._most = most
        self._there: Counter[bytes] = Counter()
        self._locks: dict[bytes, asyncio.Lock] = {}

    def __len__(self) -> int:
        return self._there.total()

    @asynccontextmanager
    async def taken(self, key: bytes) -> AsyncGenerator[None]:
        if self._there[key] >= self._most:
            raise LineFull
        self._there[key] += 1
        try:
            async with self._locks.setdefault(key, asyncio.Lock()):
                yield
        finally:
            self._there[key] -= 1
            if not self._there[key]:
                del self._there[key], self._locks[key]
