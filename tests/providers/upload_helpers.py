"""Streams, a target, and uploads in parts between them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing

from portico.providers.multipart.memory import MemoryBudget
from portico.providers.multipart.parts import UploadPart, cut, send_all


class Broken(Exception):
    pass


async def stream(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


class Target:
    """Takes parts, in any order, and keeps count of how much is under way."""

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.got: dict[int, bytes] = {}
        self.sizes_under_way: list[int] = []
        self.max_file_bytes = self.most_at_once = self.cancelled = 0
        self._fails_at = fails_at

    async def take(self, part: UploadPart) -> int:
        self.sizes_under_way.append(part.size)
        self.max_file_bytes = max(self.max_file_bytes, sum(self.sizes_under_way))
        self.most_at_once = max(self.most_at_once, len(self.sizes_under_way))
        try:
            await asyncio.sleep(random.random() / 1000)
            if part.number == self._fails_at:
                raise Broken
            self.got[part.number] = b"".join(part.chunks)
            return part.number
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.sizes_under_way.remove(part.size)


async def upload(budget: MemoryBudget, chunks: AsyncIterator[bytes], target: Target, size: int) -> list[int]:
    async with budget.share() as share, aclosing(cut(chunks, lambda _: size, share)) as found:
        return await send_all(await anext(found), found, target.take, share)


def free(budget: MemoryBudget) -> int:
    return budget._free
