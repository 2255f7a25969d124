"""`onConflict=rename`: a free name beside one that is taken, found with few questions.

Names are tried by doubling steps, and then the gap between the last one that is taken and the first one that is free is
halved. So the thousandth `scan.pdf` costs some twenty questions. The number is the lowest free one as long as none below it
was freed again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from portico.errors import AlreadyExists
from portico.paths import Path
from portico.providers.base import Provider

_ONE_BY_ONE = 4
"""Numbers that are tried in turn: the usual case, and a freed one among them is found again."""
_HIGHEST = 2**17
_MOST_OTHERS = 1000
"""Names beside it that a provider may try by itself, one by one."""
_claimed: WeakKeyDictionary[Provider, set[Path]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class FreeName:
    path: Path
    others: Iterator[Path]
    """What may be tried if the name turns out to be taken after all."""


@asynccontextmanager
async def free_name(
    provider: Provider, root: Path, path: Path, is_free: Callable[[Path], Awaitable[bool]]
) -> AsyncIterator[FreeName]:
    """The path itself, or one of `name (1)`, `name (2)` …; within the context, nobody else here is given it."""
    search = _Search(path, root, _claimed.setdefault(provider, set()), is_free)
    try:
        number = await search.run()
        yield FreeName(_numbered(path, number), _behind(path, number))
    finally:
        search.give_up()


class _Search:
    """A name is taken only when its body has come to the end; until then it is claimed.

    It must be claimed before it is looked at: else two who look at the same time both find that it is free.
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
        while not await self._claims(number := self._unclaimed(step)):
            taken = number
            step = max(number + 1, 2 * step if step >= _ONE_BY_ONE else 0)
            if step > _HIGHEST:
                raise AlreadyExists(
                    f"There are too many files called like '{self._path.name}'; choose another name."
                )
        best = limit = number
        while limit - taken > 1:
            middle = (taken + limit) // 2
            number = self._unclaimed(middle)
            if number >= limit:
                limit = middle  # all of the upper half will be others'
            elif await self._claims(number):
                best = limit = number
            else:
                taken = number
        return best

    def give_up(self) -> None:
        if self._claim is not None:
            self._claimed.discard(self._claim)
            self._claim = None

    def _unclaimed(self, number: int) -> int:
        """The next number that nobody has claimed."""
        while self._place(number) in self._claimed:
            number += 1
        return number

    async def _claims(self, number: int) -> bool:
        """Whether the name is free, and from now on ours, in place of the one before."""
        place = self._place(number)
        self._claimed.add(place)
        free = False
        try:
            free = await self._is_free(_numbered(self._path, number))
        finally:
            if not free:
                self._claimed.discard(place)
        if free:
            self.give_up()
            self._claim = place
        return free

    def _place(self, number: int) -> Path:
        return _numbered(self._path, number).under(self._root)


def _behind(path: Path, number: int) -> Iterator[Path]:
    return (_numbered(path, other) for other in range(number + 1, number + 1 + _MOST_OTHERS))


def _numbered(path: Path, number: int) -> Path:
    """`name (1).ext`, `name (2).ext` …; the path itself for 0."""
    if not number:
        return path
    stem, dot, suffix = path.name.rpartition(".")
    if not stem:
        stem, dot, suffix = path.name, "", ""
    return path.parent.child(f"{stem} ({number}){dot}{suffix}")
