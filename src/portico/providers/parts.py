"""Cutting an upload into parts and sending them, within one budget of memory for all uploads of a process."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from portico.providers.memory import Lease, MemoryBudget

T = TypeVar("T")

MIB = 2**20
PER_UPLOAD = 32 * MIB
"""Bytes that one upload holds, as long as its parts are not larger than half of that."""
SMALLEST_PART = 8 * MIB
LARGEST_PART = 64 * MIB
_GROWTH = 500
"""Parts of one size before the next ones are twice as large, where nobody knows how many will come."""


@dataclass(slots=True)
class Part:
    number: int
    """From 1 on."""
    chunks: list[bytes]
    size: int
    last: bool


UPLOADS = MemoryBudget(512 * MIB)
"""The one budget of this process for uploads to services; those to folders hold little: see `local/gathering.py`."""


def part_sizes(at_most: int | None, most_parts: int) -> Callable[[int], int]:
    """The size of the nth part, so that `most_parts` suffice.

    A known size gives equal parts, which every service takes; an unknown one parts that grow.
    """
    if at_most is not None:
        size = max(SMALLEST_PART, -(-at_most // most_parts))
        size += -size % MIB
        return lambda _: size
    return lambda number: min(LARGEST_PART, SMALLEST_PART << min((number - 1) // _GROWTH, 3))


def most_bytes(most_parts: int) -> int:
    """The largest file that `part_sizes` can plan for, of known size or not."""
    sizes = part_sizes(None, most_parts)
    return sum(sizes(number) for number in range(1, most_parts + 1))


async def cut(
    chunks: AsyncIterator[bytes],
    sizes: Callable[[int], int],
    lease: Lease,
    *,
    at_most: int | None = None,
) -> AsyncGenerator[Part]:
    """The stream in parts: at least one, which may be empty; the last one is marked as such.

    `at_most` is the number of bytes that can come at most: no more memory is reserved than that.
    """
    part = Part(1, [], 0, last=False)
    target = sizes(1)
    left = sys.maxsize if at_most is None else at_most
    async for chunk in chunks:
        while chunk:
            if part.size == target:
                yield part
                part = Part(part.number + 1, [], 0, last=False)
                target = sizes(part.number)
            piece = chunk[: target - part.size]
            await lease.take(len(piece), min(target - part.size, left))
            part.chunks.append(piece)
            part.size += len(piece)
            left -= len(piece)
            chunk = chunk[len(piece) :]
    lease.settle()
    part.last = True
    yield part


async def send_all(
    first: Part, rest: AsyncIterator[Part], send: Callable[[Part], Awaitable[T]], lease: Lease
) -> list[T]:
    """Send the parts, a few at a time, and give back each one's memory when it is acknowledged; results in order.

    The first failure ends the others and is raised as it is.
    """
    results: dict[int, T] = {}
    under_way = 0
    landed = asyncio.Event()

    async def run(part: Part) -> None:
        nonlocal under_way
        try:
            results[part.number] = await send(part)
            part.chunks.clear()
            lease.give(part.size)
        finally:
            under_way -= part.size
            landed.set()

    async def start(part: Part) -> None:
        """Send it as soon as, with the one that is filled meanwhile, it keeps within the bounds; parts may grow."""
        nonlocal under_way
        while under_way and under_way + 2 * part.size > PER_UPLOAD:
            landed.clear()
            await landed.wait()
        under_way += part.size
        group.create_task(run(part))

    try:
        async with asyncio.TaskGroup() as group:
            await start(first)
            async for part in rest:
                await start(part)
    except BaseExceptionGroup as errors:
        raise _first(errors) from errors
    return [results[number] for number in sorted(results)]


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
