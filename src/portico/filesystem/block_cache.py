"""A block cache for open files, with read-ahead."""

from collections import OrderedDict
from collections.abc import Callable

from fsspec.caching import BaseCache

BLOCK = 256 * 1024
_KEPT = 32 * 1024 * 1024
_AHEAD = 8 * 1024 * 1024
_LARGE = 4
"""Reads of more blocks than this bypass the cache."""


class BlockCache(BaseCache):
    """Keeps the most recently used blocks.

    A random read fetches only the blocks it needs, such as the footer of a Parquet file or the columns of a query.
    Sequential reads are read ahead, twice as far each time. Adjacent blocks are fetched with one request.
    """

    name = "portico"

    def __init__(self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int, kept: int = _KEPT) -> None:
        super().__init__(blocksize, fetcher, size)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._room = max(kept // blocksize, _LARGE)
        self._ahead = 0
        self._next = -1
        """The offset at which the next sequential read starts."""

    def _fetch(self, start: int | None, stop: int | None) -> bytes:
        start = start or 0
        stop = self.size if stop is None else min(stop, self.size)
        if start >= stop:
            return b""
        in_order, self._next = start == self._next, stop
        if stop - start > _LARGE * self.blocksize:
            return self._request(start, stop)
        numbers = range(start // self.blocksize, (stop - 1) // self.blocksize + 1)
        missing = [number for number in numbers if number not in self._blocks]
        self.hit_count += len(numbers) - len(missing)
        found = {number: self._blocks[number] for number in numbers if number in self._blocks}
        if missing:
            furthest = min(_AHEAD // self.blocksize, self._room // 2)
            self._ahead = min(max(2 * self._ahead, 1), furthest) if in_order else 0
            # Including the blocks between two missing ones: a request costs more than a few blocks.
            found |= self._get(missing[0], missing[-1] + self._ahead)
        for number, block in sorted(found.items()):
            self._blocks[number] = block
            self._blocks.move_to_end(number)
        while len(self._blocks) > self._room:
            self._blocks.popitem(last=False)
        content = b"".join(found[number] for number in numbers)
        offset = start - numbers[0] * self.blocksize
        return content[offset : offset + stop - start]

    def _get(self, first: int, last: int) -> dict[int, bytes]:
        start, stop = first * self.blocksize, min((last + 1) * self.blocksize, self.size)
        self.miss_count += last + 1 - first
        content = self._request(start, stop)
        pieces = range(0, stop - start, self.blocksize)
        return {first + at // self.blocksize: content[at : at + self.blocksize] for at in pieces}

    def _request(self, start: int, stop: int) -> bytes:
        self.total_requested_bytes += stop - start
        content: bytes = self.fetcher(start, stop)
        return content
