"""What was read of a file, in blocks."""

from collections import OrderedDict
from collections.abc import Callable

from fsspec.caching import BaseCache

BLOCK = 256 * 1024
_KEPT = 32 * 1024 * 1024
_AHEAD = 8 * 1024 * 1024
_LARGE = 4
"""Reads of more blocks than that are fetched as they are: who asks for so much knows what it needs."""


class Blocks(BaseCache):
    """Keeps the blocks that were used last.

    A jump fetches the blocks that it needs: the footer of a Parquet file, or the columns of a query. A file that is read
    in order is read ahead, twice as far each time. Neighbouring blocks come with one request.
    """

    name = "portico"

    def __init__(
        self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int, kept: int = _KEPT
    ) -> None:
        super().__init__(blocksize, fetcher, size)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._room = max(kept // blocksize, _LARGE)
        self._ahead = 0
        self._next = -1
        """Where a read begins that goes on where the last one ended."""

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
        if not missing:
            pass
        elif in_order:
            furthest = min(_AHEAD // self.blocksize, self._room // 2)
            self._ahead = min(max(2 * self._ahead, 1), furthest)
        else:
            self._ahead = 0
        found = {number: self._blocks[number] for number in numbers if number in self._blocks}
        if missing:
            # Also what lies between two missing blocks: one request costs more than a few blocks.
            found |= self._get(missing[0], missing[-1] + self._ahead)
        self._keep(found)
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

    def _keep(self, found: dict[int, bytes]) -> None:
        for number, block in sorted(found.items()):
            self._blocks[number] = block
            self._blocks.move_to_end(number)
        while len(self._blocks) > self._room:
            self._blocks.popitem(last=False)
