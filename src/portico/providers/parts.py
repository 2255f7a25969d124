"""Cutting an upload into parts and sending them, within one budget of memory for all uploads of a process."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

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


class MemoryBudget:
    """Bytes that all uploads together may hold.

    An upload takes memory as its bytes arrive. When none is left it waits, in turn, and so does its client; only the
    oldest upload may take a little more than there is, so that at least one can always finish its part and give back.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._holders: dict[Lease, None] = {}
        self._waiting: deque[tuple[Lease, int, asyncio.Future[None]]] = deque()

    @property
    def held(self) -> int:
        return self._total - self._free

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def lease(self) -> AsyncIterator["Lease"]:
        lease = Lease(self)
        self._holders[lease] = None
        try:
            yield lease
        finally:
            del self._holders[lease]
            self._give(lease.held)

    async def _take(self, lease: "Lease", size: int) -> None:
        if not self._waiting and self._may_take(lease, size):
            self._free -= size
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (lease, size, future)
        self._waiting.append(place)
        self._wake()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._give(size)
            else:
                self._waiting.remove(place)
            raise

    def _give(self, size: int) -> None:
        self._free += size
        self._wake()

    def _may_take(self, lease: "Lease", size: int) -> bool:
        return self._free >= size or next(iter(self._holders), lease) is lease

    def _wake(self) -> None:
        for place in list(self._waiting):
            lease, size, future = place
            # One that was cancelled leaves by itself when its task runs next.
            if not future.done() and self._may_take(lease, size):
                self._waiting.remove(place)
                self._free -= size
                future.set_result(None)


class Lease:
    """What one upload holds."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.held = 0

    async def take(self, size: int) -> None:
        await self._budget._take(self, size)
        self.held += size

    def give(self, size: int) -> None:
        self.held -= size
        self._budget._give(size)


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
    chunks: AsyncIterator[bytes], sizes: Callable[[int], int], lease: Lease
) -> AsyncGenerator[Part]:
    """The stream in parts: at least one, which may be empty; the last one is marked as such."""
    part = Part(1, [], 0, last=False)
    target = sizes(1)
    async for chunk in chunks:
        await lease.take(len(chunk))
        while chunk:
            if part.size == target:
                yield part
                part = Part(part.number + 1, [], 0, last=False)
                target = sizes(part.number)
            piece = chunk[: target - part.size]
            part.chunks.append(piece)
            part.size += len(piece)
            chunk = chunk[len(piece) :]
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
