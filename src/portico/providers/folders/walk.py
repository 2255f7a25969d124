"""A walk through folders, depth first."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from portico.model.entries import Entry, Page
from portico.model.errors import NotAFolder, NotFound
from portico.model.paths import Path
from portico.providers.contract.provider import Found, TreeWalk, decode, encode
from portico.providers.wire.responses import Progress

_LISTINGS = 16
"""Folders that are listed for one page at most: many may be empty."""
_AHEAD_PAGE = 250
"""Entries of each folder that is listed ahead."""


class Position(msgspec.Struct, array_like=True, frozen=True):
    """In a folder, behind an entry: the token of the listing's page, and what the entry is."""

    token: str | None = None
    is_file: bool = False
    name: str = ""


PageAfter = Callable[[Path, Position, int], Awaitable[Page]]
"""The entries of a folder behind a position, from the page that the position names. They are in an order in which every
entry has its place whatever the others are."""


class _Level:
    def __init__(self, path: Path, position: Position) -> None:
        self.path = path
        self.position = position
        self.waiting: deque[Entry] | None = None
        """The rest of the page, once it is read."""
        self.next_token: str | None = None
        self.taken = False
        """Whether an entry of this page was behind the position."""
        self.progress = Progress()


class FolderWalk(TreeWalk):
    def __init__(self, folder: Path, token: str | None, page_after: PageAfter, *, ahead: int = 0) -> None:
        """`ahead`: how many folders it may list at the same time before their turn."""
        self._folder = folder
        self._most_ahead = ahead
        self._ahead: dict[Path, asyncio.Task[Page]] = {}
        self._page_after = page_after
        self._levels: list[_Level] = []
        path = Path()
        for position in [Position()] if token is None else decode(token, list[Position]):
            self._levels.append(_Level(path, position))
            path = Path((*path.segments, position.name))

    @property
    def token(self) -> str | None:
        return encode([level.position for level in self._levels]) if self._levels else None

    async def page(self, size: int) -> list[Found]:
        found: list[Found] = []
        for _ in range(_LISTINGS):
            await self._read(size)
            while self._levels and self._levels[-1].waiting is not None and len(found) < size:
                self._take(self._levels[-1], found, size)
            if not self._levels or len(found) >= size:
                break
        return found

    async def _read(self, size: int) -> None:
        level = self._levels[-1]
        if level.waiting is not None:
            return
        try:
            begun = self._ahead.pop(level.path, None)
            page = await (begun or self._page_after(level.path.under(self._folder), level.position, size))
        except (NotFound, NotAFolder):
            if not level.path.segments:
                raise
            page = Page([])  # removed since its parent was listed
        if not level.position.name:  # otherwise it may lack entries
            names = [f"{'d' if entry.is_folder else 'f'}{entry.name}" for entry in page.entries]
            level.progress.page(names, page.token)
        level.waiting, level.next_token, level.taken = deque(page.entries), page.token, False
        if self.reads_ahead:
            self._read_ahead(size)

    def _read_ahead(self, size: int) -> None:
        """Begin to list the next folders, in the order of their turns."""
        for path in self._upcoming():
            if len(self._ahead) >= self._most_ahead:
                return
            if path not in self._ahead:
                listing = self._page_after(path.under(self._folder), Position(), min(size, _AHEAD_PAGE))
                self._ahead[path] = asyncio.ensure_future(listing)

    def _upcoming(self) -> Iterator[Path]:
        """The folders that are known to come, also those in folders that were listed ahead."""
        waiting = [(level.path, iter(level.waiting or ())) for level in self._levels]
        while waiting:
            above, entries = waiting[-1]
            entry = next(entries, None)
            if entry is None:
                waiting.pop()
            elif entry.is_folder:
                path = Path((*above.segments, entry.name))
                yield path
                listed = self._ahead.get(path)
                if listed and listed.done() and not listed.cancelled() and not listed.exception():
                    waiting.append((path, iter(listed.result().entries)))

    async def close(self) -> None:
        tasks = [*self._ahead.values()]
        self._ahead.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, level: _Level, found: list[Found], size: int) -> None:
        """Take entries of the deepest folder, up to the next folder below it."""
        waiting = level.waiting or deque()
        above = level.path.segments
        entry = None
        while waiting and len(found) < size:
            entry = waiting.popleft()
            found.append((Path((*above, entry.name)), entry))
            if entry.is_folder:
                break
        if entry:
            level.taken = True
            level.position = Position(level.position.token, not entry.is_folder, entry.name)
            if entry.is_folder:
                self._levels.append(_Level(found[-1][0], Position()))
                return
        if waiting:
            return
        if level.next_token is None:
            self._levels.pop()
        else:
            # The position may be beyond this page: it was shorter than before, or entries were added to it.
            before = Position() if level.taken else level.position
            level.position = Position(level.next_token, before.is_file, before.name)
            level.waiting = None
