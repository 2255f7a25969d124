"""A walk through an object store, by its flat listing. Folders show in the keys below them."""

from collections.abc import Awaitable, Callable, Collection
from itertools import takewhile

import msgspec

from portico.model.entries import FOLDER_TYPE, Entry
from portico.model.paths import Path, name_flaw
from portico.providers.contract.provider import Found, TreeWalk, decode, encode
from portico.providers.objects.service import ObjectService, folder_key
from portico.providers.wire.responses import Progress


class _KeyPosition(msgspec.Struct, array_like=True, frozen=True):
    token: str | None = None
    last: str = ""
    """The last key: the folders above it have appeared."""
    marked: tuple[str, ...] = ()
    """Folders that have appeared, and whose keys are still to come: a blob can mark `a/` before `a-b` and `a/b`."""


class KeyWalk(TreeWalk):
    def __init__(
        self, store: ObjectService, folder: Path, token: str | None, check: Callable[[Path], Awaitable[None]]
    ) -> None:
        """`check` raises `NotFound` or `NotAFolder` for a folder without keys, unless it is one all the same."""
        self._store = store
        self._folder = folder
        self._prefix = folder_key(folder)
        self._check = check
        self._progress = Progress()
        self._position: _KeyPosition | None = _KeyPosition() if token is None else decode(token, _KeyPosition)

    @property
    def token(self) -> str | None:
        return encode(self._position) if self._position else None

    async def page(self, size: int) -> list[Found]:
        position = self._position
        if position is None:
            return []
        listing = await self._store.list_content(self._prefix, size, position.token, flat=True)
        self._progress.page([entry.name for entry in listing.objects], listing.token)
        if not (listing.objects or listing.token or position.token or self._folder.is_root):
            await self._check(self._folder)
        found: list[Found] = []
        last, marked = position.last, position.marked
        for entry in listing.objects:
            key = entry.name.removeprefix(self._prefix)
            if not entry.name.startswith(self._prefix) or not _is_shown(key):
                continue
            marked = tuple(folder for folder in marked if key < folder or key.startswith(folder))
            _add(found, key, entry, last, marked)
            if key.endswith("/"):
                marked = (*marked, key)
            last = key
        self._position = None if listing.token is None else _KeyPosition(listing.token, last, marked)
        return found


def _is_shown(key: str) -> bool:
    """Listings leave out the others, too, and log them."""
    return bool(key) and not any(map(name_flaw, key.removesuffix("/").split("/")))


def _add(found: list[Found], key: str, entry: Entry, last: str, marked: Collection[str]) -> None:
    """Add what a key shows: the folders above it that are new since the last one, and the file itself."""
    *folders, name = key.split("/")
    above = last.split("/")[:-1]
    known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(folders, above, strict=False)))
    for depth in range(known + 1, len(folders) + 1):
        path = Path(tuple(folders[:depth]))
        if folder_key(path) not in marked:
            found.append((path, Entry(path.name, True, content_type=FOLDER_TYPE)))
    if name:  # otherwise it is the marker of a folder
        entry.name = name
        found.append((Path((*folders, name)), entry))
