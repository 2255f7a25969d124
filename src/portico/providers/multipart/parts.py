"""Uploads in parts: a stream is cut into parts, and several of them are sent at the same time."""

import asyncio
import hashlib
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from portico.providers.multipart.memory import MemoryBudget, MemoryShare
from portico.runtime.tasks import first_error

T = TypeVar("T")

MIB = 2**20
MAX_UPLOAD_MEMORY = 32 * MIB
"""Bytes that one upload holds, unless a single part is larger than half of that."""
MIN_PART_BYTES = 8 * MIB
MAX_PART_BYTES = 64 * MIB
_PARTS_PER_SIZE = 500
"""How many parts have the same size before it doubles, if the size of the file is unknown."""
MARK = "portico-upload"
"""The metadata that identifies the object of an upload, if the response was lost."""
LOOKUP_FRACTION = 3
"""A look-up after a lost response may take the timeout divided by this: the client has waited already."""
_HASH_INLINE_BYTES = 256 * 1024
"""Up to this size, hashing takes less time than the hop to a thread."""


@dataclass(slots=True)
class UploadPart:
    number: int
    """Counted from 1."""
    chunks: list[bytes]
    size: int
    last: bool
    offset: int = 0
    """Of its first byte in the file; only resumable uploads set it."""

    async def md5(self) -> str:
        """The MD5 of the part in base64, as `Content-MD5` wants it."""
        return self._md5() if self.size <= _HASH_INLINE_BYTES else await asyncio.to_thread(self._md5)

    def _md5(self) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        for chunk in self.chunks:
            digest.update(chunk)
        return b64encode(digest.digest()).decode()


@dataclass(slots=True)
class Parts:
    """The parts of one upload: the first one, which may be the only one, and the rest as it arrives."""

    first: UploadPart
    rest: AsyncGenerator[UploadPart]
    share: MemoryShare

    async def send(self, send: Callable[[UploadPart], Awaitable[T]], *, in_order: bool = False) -> list[T]:
        return await send_all(self.first, self.rest, send, self.share, in_order=in_order)


@asynccontextmanager
async def split(
    memory: MemoryBudget, chunks: AsyncIterator[bytes], sizes: Callable[[int], int], at_most: int | None
) -> AsyncIterator[Parts]:
    """The parts of a stream, once the first is complete. If that is the last, the file fits into one request."""
    async with memory.share() as share, aclosing(cut(chunks, sizes, share, at_most=at_most)) as parts:
        yield Parts(await anext(parts), parts, share)


def part_sizes(at_most: int | None, max_parts: int | None) -> Callable[[int], int]:
    """The size of the nth part, chosen so that `max_parts` are enough, if there is such a limit.

    If the size is known, all parts are equal, which every service accepts. If not, they grow.
    """
    if max_parts is None:
        return lambda _: MIN_PART_BYTES
    if at_most is not None:
        size = max(MIN_PART_BYTES, -(-at_most // max_parts))
        size += -size % MIB
        return lambda _: size
    return lambda number: min(MAX_PART_BYTES, MIN_PART_BYTES << min((number - 1) // _PARTS_PER_SIZE, 3))


def max_file_bytes(max_parts: int) -> int:
    """The largest file that `part_sizes` can plan for, whether its size is known or not."""
    sizes = part_sizes(None, max_parts)
    total, first = 0, 1
    while first <= max_parts:
        same = max_parts if sizes(first) == MAX_PART_BYTES else min(max_parts, first + _PARTS_PER_SIZE - 1)
        total += (same + 1 - first) * sizes(first)
        first = same + 1
    return total


async def cut(
    chunks: AsyncIterator[bytes],
    sizes: Callable[[int], int],
    share: MemoryShare,
    *,
    at_most: int | None = None,
    ahead: int = 0,
) -> AsyncGenerator[UploadPart]:
    """Cut a stream into parts: at least one, which may be empty. The last one is marked.

    `at_most` is the largest number of bytes that can arrive; no more memory is reserved. `ahead`: the first part lacks
    this many bytes, which come before the stream. Their memory is reserved, and is the caller's to take or to settle.
    """
    part = UploadPart(1, [], 0, last=False)
    target = sizes(1) - ahead
    left = sys.maxsize if at_most is None else at_most
    async for chunk in chunks:
        while chunk:
            if part.size == target:
                yield part
                part = UploadPart(part.number + 1, [], 0, last=False)
                target, ahead = sizes(part.number), 0
            piece = chunk[: target - part.size]
            await share.take(len(piece), min(target - part.size, left) + ahead)
            part.chunks.append(piece)
            part.size += len(piece)
            left -= len(piece)
            chunk = chunk[len(piece) :]
    if not ahead:
        share.settle()
    part.last = True
    yield part


async def send_all(
    first: UploadPart,
    rest: AsyncIterator[UploadPart],
    send: Callable[[UploadPart], Awaitable[T]],
    share: MemoryShare,
    report: Callable[[list[tuple[UploadPart, T]]], Awaitable[None]] | None = None,
    *,
    in_order: bool = False,
) -> list[T]:
    """Send the parts, several at a time, and return the results in order.

    The memory of a part is given back once the part is acknowledged. The first failure cancels the others and is
    raised. `report` is called with each part, its chunks removed, once it and all before it are acknowledged: in
    order, one call at a time, while others are still being sent. `in_order`: a part is sent only after the previous one.
    """
    results: dict[int, T] = {}
    unreported: dict[int, UploadPart] = {}
    next_report = first.number
    reporting = asyncio.Lock()
    sending = asyncio.Lock()
    broken = False
    in_flight = 0
    acknowledged = asyncio.Event()

    async def run(part: UploadPart) -> None:
        nonlocal in_flight
        try:
            results[part.number] = await (send_next(part) if in_order else send(part))
            part.chunks.clear()
            share.give(part.size)
        finally:
            in_flight -= part.size
            acknowledged.set()
        if report:
            unreported[part.number] = part
            await report_complete(report)

    async def send_next(part: UploadPart) -> T:
        nonlocal broken
        async with sending:  # acquired in the order of the parts
            if broken:
                raise asyncio.CancelledError
            try:
                return await send(part)
            except BaseException:
                broken = True
                raise

    async def report_complete(report: Callable[[list[tuple[UploadPart, T]]], Awaitable[None]]) -> None:
        nonlocal next_report
        async with reporting:
            done = []
            while part := unreported.pop(next_report, None):
                done.append((part, results[next_report]))
                next_report += 1
            if done:
                await report(done)

    async def start(part: UploadPart) -> None:
        """Wait until this part and the next one, which fills up meanwhile, fit into the upload's memory."""
        nonlocal in_flight
        while in_flight and in_flight + 2 * part.size > MAX_UPLOAD_MEMORY:
            acknowledged.clear()
            await acknowledged.wait()
        in_flight += part.size
        group.create_task(run(part))

    try:
        async with asyncio.TaskGroup() as group:
            await start(first)
            async for part in rest:
                await start(part)
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    return [results[number] for number in sorted(results)]
