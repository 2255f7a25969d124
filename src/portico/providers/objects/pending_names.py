"""Names of files and folders that changes of this process are about to take.

An object store lets a file `a` and a file `a/b` exist at the same time. Two changes that both look before either is done
would make such twins, so the second one to take its name is refused.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

from portico.model.errors import cannot_replace_folder, not_a_folder
from portico.model.paths import Path

_REMEMBERED = 4096
"""Names of files that were stored."""


class PendingName:
    """One change, from before it looks until it is done."""

    def __init__(self, path: Path, *, is_folder: bool) -> None:
        self.file = None if is_folder else path
        depth = len(path.segments) + is_folder
        self.folders = {Path(path.segments[:length]) for length in range(1, depth)}
        self.rivals: set[PendingName] = set()
        self.beaten_by: PendingName | None = None
        """A rival that has taken its name and is done."""
        self.taken = False

    def take(self) -> None:
        """Called right before the change becomes visible; raises if another one was faster."""
        if rival := self.beaten_by or next((rival for rival in self.rivals if rival.taken), None):
            if self.file in rival.folders and self.file:
                raise cannot_replace_folder(self.file.name)
            if rival.file:
                raise not_a_folder(rival.file.name)
        self.taken = True

    async def taking(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The content of a file, whose name is taken after the last chunk."""
        async for chunk in chunks:
            yield chunk
        self.take()


class PendingNames:
    """One for each provider."""

    def __init__(self) -> None:
        self._pending: dict[Path, set[PendingName]] = {}
        """By each name that is to be a file, or a folder."""
        self._files: dict[Path, float] = {}
        """When changes were done that may have stored files, the last one at the end."""
        self._forgotten = 0.0
        """Until when they are not remembered."""

    def has_no_file_since(self, moment: float, folder: Path) -> bool:
        """Whether neither the folder nor one above it has become a file since that moment of the monotonic clock."""
        names = (Path(folder.segments[:length]) for length in range(1, len(folder.segments) + 1))
        return moment > self._forgotten and all(self._files.get(name, 0.0) < moment for name in names)

    @contextmanager
    def pending(self, path: Path, *, is_folder: bool = False) -> Iterator[PendingName]:
        mine = PendingName(path, is_folder=is_folder)
        names = mine.folders | ({mine.file} if mine.file else set())
        for name in names:
            for rival in self._pending.get(name, ()):
                if (rival.file == name) != (mine.file == name):
                    mine.rivals.add(rival)
                    rival.rivals.add(mine)
            self._pending.setdefault(name, set()).add(mine)
        try:
            yield mine
        except BaseException:
            mine.taken = False
            raise
        finally:
            for rival in mine.rivals:
                rival.rivals.discard(mine)
                if mine.taken:
                    rival.beaten_by = mine
            mine.rivals.clear()
            if mine.file:
                self._remember(mine.file)
            for name in names:
                self._pending[name].discard(mine)
                if not self._pending[name]:
                    del self._pending[name]

    def _remember(self, file: Path) -> None:
        self._files.pop(file, None)
        self._files[file] = time.monotonic()
        if len(self._files) > _REMEMBERED:
            self._forgotten = self._files.pop(next(iter(self._files)))


async def existing_depth(folder: Path, exists: Callable[[Path], Awaitable[object]]) -> int:
    """How many leading segments of `folder` exist as folders, found by bisection.

    The deepest folder is tried first: it usually exists, which takes one request. Bisection is sound because every
    folder above an existing folder exists.
    """
    known, limit = 0, len(folder.segments)
    depth = limit
    while known < limit:
        if await exists(Path(folder.segments[:depth])):
            known = depth
        else:
            limit = depth - 1
        depth = (known + limit + 1) // 2
    return known
