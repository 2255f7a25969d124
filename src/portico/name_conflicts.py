"""`onConflict=rename`: find a free name beside one that is taken, with few look-ups.

Numbers are tried in doubling steps, then the gap between the last taken one and the first free one is bisected. So the
thousandth `scan.pdf` costs some twenty look-ups. The number is the lowest free one unless a lower one was freed again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from portico.errors import AlreadyExists
from portico.paths import Path

_ONE_BY_ONE = 4
"""Numbers that are tried in turn: the usual case, and a freed number among them is found."""
_MAX_NUMBER = 2**17
_MAX_OTHERS = 1000
"""Further names that a provider may try by itself."""


@dataclass(frozen=True, slots=True)
class FreeName:
    path: Path
    others: Iterator[Path]
    """Names to try if this one is taken after all."""


@asynccontextmanager
async def free_name(
    claimed: set[Path], root: Path, path: Path, is_free: Callable[[Path], Awaitable[bool]]
) -> AsyncIterator[FreeName]:
    """The path itself, or `name (1)`, `name (2)` …; within the context, no other caller gets the same name.

    `claimed` holds the names in use by such contexts; callers that write to the same provider share it.
    """
    search = _Search(path, root, claimed, is_free)
    try:
        number = await search.run()
        yield FreeName(_numbered(path, number), _following(path, number))
    finally:
        search.release()


class _Search:
    """An upload takes its name only at its end; until then the name is claimed.

    A name is claimed before it is looked up: otherwise two callers could both find it free.
    """

    def __init__(
        self, path: Path, root: Path, claimed: set[Path], is_free: Callable[[Path], Awaitable[bool]]
    ) -> None:
        self._path = path
        self._root = root
        self._claimed = claimed
        self._is_free = is_free
        self._claim: Path | None = None

    async def run(self) -> int:
        taken, step = -1, 0
        while not await self._try_claim(number := self._unclaimed(step)):
            taken = number
            step = max(number + 1, 2 * step if step >= _ONE_BY_ONE else 0)
            if step > _MAX_NUMBER:
                raise AlreadyExists(
                    f"There are too many files with names like '{self._path.name}'; choose another name."
                )
        best = limit = number
        while limit - taken > 1:
            middle = (taken + limit) // 2
            number = self._unclaimed(middle)
            if number >= limit:
                limit = middle  # the whole upper half is claimed
            elif await self._try_claim(number):
                best = limit = number
            else:
                taken = number
        return best

    def release(self) -> None:
        if self._claim is not None:
            self._claimed.discard(self._claim)
            self._claim = None

    def _unclaimed(self, number: int) -> int:
        """The next number that is not claimed."""
        while self._target(number) in self._claimed:
            number += 1
        return number

    async def _try_claim(self, number: int) -> bool:
        """Claim the name, instead of the previous one, if it is free."""
        target = self._target(number)
        self._claimed.add(target)
        free = False
        try:
            free = await self._is_free(_numbered(self._path, number))
        finally:
            if not free:
                self._claimed.discard(target)
        if free:
            self.release()
            self._claim = target
        return free

    def _target(self, number: int) -> Path:
        return _numbered(self._path, number).under(self._root)


def _following(path: Path, number: int) -> Iterator[Path]:
    return (_numbered(path, other) for other in range(number + 1, number + 1 + _MAX_OTHERS))


def _numbered(path: Path, number: int) -> Path:
    """`name (1).ext`, `name (2).ext` …; the path itself for 0."""
    if not number:
        return path
    stem, dot, suffix = path.name.rpartition(".")
    if not stem:
        stem, dot, suffix = path.name, "", ""
    return path.parent.child(f"{stem} ({number}){dot}{suffix}")
