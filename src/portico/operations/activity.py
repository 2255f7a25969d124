"""`Activity`: what happened to a file or folder, for those who may list it."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from portico.drive.cursors import CursorSeal
from portico.drive.drive import Drive
from portico.model.errors import InvalidCursor, PorticoError
from portico.model.paths import TRASH, Path, Place
from portico.model.rights import Right
from portico.model.versions import UNSEEN, Version
from portico.observability.audit import DONE, is_command
from portico.operations.actors.tree import Tree
from portico.operations.trash import Trash
from portico.store.database import AnyRow, Database
from portico.store.journal_search import Search, find_rows
from portico.store.recordings import place_of

_MOST: Final = 1000
_FEWEST_ROWS: Final = 200
"""Rows that a request looks at, even if it wants fewer events: some are of downloads and refusals, or of hidden places."""
_PLACES_AT_ONCE: Final = 50
"""Databases limit how many conditions a query has."""
_WORDS: Final = {
    "upload": "stored",
    "mkdir": "made",
    "delete": "deleted",
    "move": "moved",
    "copy": "copied",
    "restore": "restored",
    "trash.remove": "removed",
}
"""What a change is called, by its action in the journal."""
_REPLACING: Final = ("upload", "move", "copy", "restore")


class Event(msgspec.Struct, frozen=True):
    at: int
    """Milliseconds since the epoch."""
    action: str
    path: Path | None
    """Of a move or copy, the new path. None if the actor can't see it."""
    source: Path | None
    """Of a move or copy. None if the actor can't see it."""
    is_folder: bool
    size: int | None
    user: str | None
    """None if it was an administrator."""
    by_link: bool
    """Whether a guest of the user did it."""
    guest: str | None
    """The guest's name, for the owner of the link."""
    trash_id: str | None
    """Of what was deleted or replaced, if the actor may restore it."""


class ActivityPage(msgspec.Struct, frozen=True):
    events: list[Event]
    cursor: str | None


class ActivityServices(msgspec.Struct, frozen=True):
    database: Database
    seal: CursorSeal


class _Line(msgspec.Struct):
    """Of an audit line, what names its actor."""

    user: str = ""
    link: str = ""
    guest: str | None = None


_LINES: Final = msgspec.json.Decoder(_Line)
_VERSIONS: Final = msgspec.json.Decoder(Version)


class Activity:
    def __init__(self, shared: ActivityServices, tree: Tree, trash: Trash) -> None:
        self._shared = shared
        self._tree = tree
        self._trash = trash
        self._drives: dict[str, list[Drive]] = {}
        """By connection, the deepest folder first."""

    async def list(self, path: Path, size: int, cursor: str | None = None) -> ActivityPage:
        """Changes of a path and of everything below it, the newest first. There may be fewer, or none, although more follow."""
        size = min(size, _MOST)
        drive, path = await self._tree.at(path)
        drive.require(Right.LIST)
        drives = [drive] if drive.connection else []
        if not drives:
            await drive.stat(path)
        drives += [await self._tree.drive(mount) for mount in self._tree.inner(path, Right.LIST)]
        if not drives:
            return ActivityPage([], None)
        scope = f"activity {self._tree.reach.digest} {path}"
        before = None if cursor is None else _number(self._shared.seal.open(cursor, scope))
        wanted = max(_FEWEST_ROWS, 2 * size)
        rows = await self._rows([each.place(path if each is drive else each.point) for each in drives], wanted, before)
        found: list[Event] = []
        seen = 0
        while seen < len(rows) and len(found) < size:
            if event := await self._event(rows[seen], path):
                found.append(event)
            seen += 1
        more = seen < len(rows) or len(rows) == wanted
        following = self._shared.seal.close(str(rows[seen - 1].number), scope) if more else None
        restorable = await self._trash.restorable({event.trash_id for event in found if event.trash_id})
        return ActivityPage([_with_trash(event, restorable) for event in found], following)

    async def _rows(self, places: Sequence[Place], wanted: int, before: int | None) -> Sequence[AnyRow]:
        """Of these places and everything below them, the newest first."""
        found: dict[int, AnyRow] = {}
        for start in range(0, len(places), _PLACES_AT_ONCE):
            first, *others = places[start : start + _PLACES_AT_ONCE]
            search = Search(place=first, others=others, is_below=True)
            found.update({row.number: row for row in await find_rows(self._shared.database, search, wanted, before)})
        return [found[number] for number in sorted(found, reverse=True)[:wanted]]

    async def _event(self, row: AnyRow, asked: Path) -> Event | None:
        """None for what was no change, and for what the actor doesn't see."""
        before = None if row.before is None else _VERSIONS.decode(row.before)
        if row.outcome != DONE or row.action not in _WORDS or (row.action == "mkdir" and before):
            return None
        after = None if row.after is None else _VERSIONS.decode(row.after)
        version = after or before or Version()
        path = await self._path(row.connection, row.place, asked, version)
        source = None
        if row.action in ("move", "copy", "restore"):
            source, path = path, await self._path(row.to_connection, row.target, asked, version)
        changed = [path, source] if row.action == "move" else [path]
        if not any(each and asked.holds(each) for each in changed):
            return None
        line = _LINES.decode(row.line)
        is_mine = line.user.casefold() == self._tree.actor.user.name.casefold()
        replaces = row.action == "upload" and before and before != UNSEEN
        return Event(
            at=row.at,
            action="replaced" if replaces else _WORDS[row.action],
            path=path,
            source=source,
            is_folder=version.is_folder,
            size=version.size if (after or before) and not version.is_folder and version.size >= 0 else None,
            user=None if not line.user or is_command(line.user) else line.user,
            by_link=bool(line.link),
            guest=line.guest if is_mine else None,
            trash_id=row.kept if row.action == "delete" or (before and row.action in _REPLACING) else None,
        )

    async def _path(self, connection: str | None, place: str | None, asked: Path, version: Version) -> Path | None:
        """Where the actor sees a place of the journal, in the folder that was asked for if it is there."""
        if connection is None or place is None:
            return None
        where, seen = place_of(connection, place), None
        if TRASH in where.path.segments:
            return None
        for drive in await self._drives_of(connection):
            within = Place(connection, drive.root).path_to(where)
            if within is not None and drive.has(path := within.under(drive.point), is_folder=version.is_folder):
                if asked.holds(path):
                    return path
                seen = seen or path
        return seen

    async def _drives_of(self, connection: str) -> Sequence[Drive]:
        """Those in which the actor may list. A storage that can't be opened shows nothing."""
        if connection not in self._drives:
            mounts = [mount for mount in self._tree.reach.mounts if mount.place.connection == connection]
            try:
                drives = [await self._tree.drive(mount) for mount in mounts if Right.LIST in mount.rights]
            except PorticoError:
                drives = []
            self._drives[connection] = sorted(drives, key=lambda drive: -len(drive.root.segments))
        return self._drives[connection]


def _with_trash(event: Event, restorable: Collection[str]) -> Event:
    return event if event.trash_id in restorable else msgspec.structs.replace(event, trash_id=None)


def _number(token: str) -> int:
    if token.isascii() and token.isdecimal() and len(token) < 19:
        return int(token)
    raise InvalidCursor("The cursor is not valid. Start again without a cursor.")
