"""`onConflict=rename`: find a free name beside one that is taken, with few look-ups.

Numbers are tried in doubling steps, then the gap between the last taken one and the first free one is bisected. So the
thousandth `scan.pdf` costs some twenty look-ups. The number is the lowest free one unless a lower one was freed again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256

import msgspec

from portico.model.errors import AlreadyExists
from portico.model.paths import Path
from portico.store.leases import Lease, Leases

_ONE_BY_ONE = 4
"""Numbers that are tried in turn: the usual case, and a freed number among them is found."""
_MAX_NUMBER = 2**17
_NAME_BYTES = 255
"""Of a name on most file systems."""
_MAX_SUFFIX = 32
_MAX_OTHERS = 1000
"""Further names that a provider may try by itself."""


class FreeName(msgspec.Struct, frozen=True):
    path: Path
    others: Iterator[Path]
    """Names to try if this one is taken after all."""


class NameClaims:
    """Names of one connection that running changes have claimed: in this process, and by leases on all nodes."""

    def __init__(self, connection: str, leases: Leases | None = None) -> None:
        self._connection = connection
        self._leases = leases
        self._claims: dict[Path, Lease | None] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._claims

    def add(self, path: Path) -> None:
        """Claim the name in this process."""
        self._claims[path] = None

    @property
    def shared(self) -> bool:
        """Whether other processes may claim names, too."""
        return self._leases is not None

    async def secure(self, path: Path) -> bool:
        """Whether a name that is claimed here is now claimed on all nodes."""
        assert self._leases
        name = sha256(f"{self._connection}\0{path}".encode()).hexdigest()
        self._claims[path] = await self._leases.acquire(f"name:{name[:48]}")
        return self._claims[path] is not None

    async def release(self, path: Path) -> None:
        if lease := self._claims.pop(path, None):
            await lease.release()


@asynccontextmanager
async def free_name(
    claims: NameClaims,
    place: Callable[[Path], Path],
    path: Path,
    is_free: Callable[[Path], Awaitable[bool]],
    *,
    everywhere: bool = True,
) -> AsyncIterator[FreeName]:
    """The path itself, or `name (1)`, `name (2)` …; within the context, no other caller gets the same name.

    `place`: the provider's path, the same for all who see it. `everywhere`: on no other node either. A provider that
    takes other names at the commit does not need that.
    """
    search = _Search(path, place, claims, is_free, everywhere)
    try:
        number = await search.run()
        others = (_numbered(path, other) for other in range(number + 1, number + 1 + _MAX_OTHERS))
        yield FreeName(_numbered(path, number), others)
    finally:
        await search.release()


class _Search:
    """The name is claimed until the upload ends, and before it is looked up: two callers could both find it free."""

    def __init__(
        self,
        path: Path,
        place: Callable[[Path], Path],
        claims: NameClaims,
        is_free: Callable[[Path], Awaitable[bool]],
        everywhere: bool,
    ) -> None:
        self._path = path
        self._place = place
        self._claims = claims
        self._is_free = is_free
        self._everywhere = everywhere
        self._claim: Path | None = None

    async def run(self) -> int:
        number = await self._find(0)
        while self._everywhere and self._claims.shared:
            if await self._claims.secure(self._target(number)) and await self._is_free(_numbered(self._path, number)):
                break  # ours on all nodes, and still free now that it is
            number = await self._find(number + 1)
        return number

    async def _find(self, start: int) -> int:
        """Claim a free name with this number or a higher one."""
        taken, step = start - 1, start
        while not await self._try_claim(number := self._unclaimed(step)):
            taken = number
            step = max(number + 1, 2 * step if step >= _ONE_BY_ONE else 0)
            if step > _MAX_NUMBER:
                raise AlreadyExists(f"Too many files have names like '{self._path.name}'. Choose another name.")
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

    async def release(self) -> None:
        if self._claim is not None:
            claim, self._claim = self._claim, None
            await self._claims.release(claim)

    def _unclaimed(self, number: int) -> int:
        while self._target(number) in self._claims:
            number += 1
        return number

    async def _try_claim(self, number: int) -> bool:
        """Claim the name, instead of the previous one, if it is free."""
        target = self._target(number)
        self._claims.add(target)
        free = False
        try:
            free = await self._is_free(_numbered(self._path, number))
        finally:
            if not free:
                await self._claims.release(target)
        if free:
            await self.release()
            self._claim = target
        return free

    def _target(self, number: int) -> Path:
        return self._place(_numbered(self._path, number))


def _numbered(path: Path, number: int) -> Path:
    """`name (1).ext`, `name (2).ext` …; the path itself for 0. A long name becomes shorter, so that the number fits."""
    if not number:
        return path
    stem, dot, suffix = path.name.rpartition(".")
    if not stem or len(suffix) > _MAX_SUFFIX:
        stem, dot, suffix = path.name, "", ""
    end = f" ({number}){dot}{suffix}"
    if len(path.name.encode()) <= _NAME_BYTES < len((stem + end).encode()):
        stem = stem.encode()[: _NAME_BYTES - len(end.encode())].decode(errors="ignore")
    return path.parent.child(stem + end)
