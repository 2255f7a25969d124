"""Where a rewind works: `EveryPlace` for an administrator, `OwnPlaces` for a user, who may undo only what is within reach now."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, Self

import msgspec

from portico.drive.connection_pool import ConnectionPool
from portico.drive.drive import Drive
from portico.model.errors import Forbidden, NotPossible, PorticoError
from portico.model.paths import TOP, Path, Place
from portico.model.rights import OVERWRITE, Right
from portico.operations.actors.tree import Tree
from portico.operations.rewind.locations import Location, is_in_trash
from portico.operations.rewind.plan import COPY, DELETE, MOVE, OUTSIDE, Change
from portico.operations.rewind.steps import Step
from portico.store.trash import KEPT, Trashed

OUT_OF_REACH: Final = "out-of-reach"
NO_PERMISSION: Final = "no-permission"

_RESTORING: Final = (Right.UPLOAD, *OVERWRITE)
NEEDED: Final[Mapping[str, tuple[Right, ...]]] = {
    "remove": (Right.DELETE,),
    "tidy": (Right.DELETE,),
    "make": (Right.UPLOAD,),
    "restore": _RESTORING,
}
"""The rights for each step, but for a move."""


class Spot(msgspec.Struct, frozen=True):
    drive: Drive
    path: Path
    """Of the drive's tree."""
    place: Place
    """As links know it."""


class Places(Protocol):
    async def at(self, location: Location, *needed: Right) -> Spot:
        """Where something is done that needs these rights."""

    async def pair(self, source: Location, target: Location) -> tuple[Spot, Spot]:
        """Both ends of a move."""

    def takes(self, record: Trashed) -> bool:
        """Whether an item of the trash may be brought back."""


class EveryPlace:
    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def at(self, location: Location, *_: Right) -> Spot:
        drive = await self._pool.of_connection(location[0])
        path = _path(drive, location)
        return Spot(drive, path, Place(drive.connection, path))

    async def pair(self, source: Location, target: Location) -> tuple[Spot, Spot]:
        return await self.at(source), await self.at(target)

    def takes(self, _: Trashed) -> bool:
        return True


def _path(drive: Drive, location: Location) -> Path:
    if len(location) == 1:
        return TOP
    if is_in_trash(location):
        return Path(location[1:])
    return drive.path_of(Path(location[1:]))


class OwnPlaces:
    """The places of one user's tree, and which of the user's own changes may be undone: what the user may do by hand."""

    removals = False

    def __init__(self, tree: Tree, drives: Iterable[Drive], within: Path = TOP) -> None:
        self._tree = tree
        self._drives = sorted(drives, key=lambda drive: -len(drive.root.segments))
        self._within = within

    @classmethod
    async def of(cls, tree: Tree, within: Path = TOP) -> Self:
        """A storage that can't be opened is out of reach."""
        drives = []
        for mount in tree.reach.mounts:
            if mount.rights:
                with suppress(PorticoError):
                    drives.append(await tree.drive(mount))
        return cls(tree, drives, within)

    # Which changes

    def concerns(self, change: Change) -> bool:
        if self._within.is_root:
            return True
        paths = [spot.path for end in _ends(change) for spot in self._spots(end)]
        return any(path.holds(self._within) or self._within.holds(path) for path in paths)

    def refusal(self, change: Change) -> str | None:
        found = [[spot.path for spot in self._spots(end)] for end in _ends(change)]
        if not all(found):
            return OUT_OF_REACH
        if not all(any(map(self._within.holds, paths)) for paths in found):
            return OUTSIDE
        return None if self._may_undo(change) else NO_PERMISSION

    def _may_undo(self, change: Change) -> bool:
        over = _RESTORING if change.replaced else ()
        if change.action == DELETE:
            is_made = change.deleted is None and change.before is not None and change.before.is_folder
            return self._pick(change.place, (Right.UPLOAD,) if is_made else _RESTORING) is not None
        if change.action != MOVE:
            return self._pick(change.at_last, over or (Right.DELETE,)) is not None
        if change.deleted:
            there = self._pick(change.at_last, over or (Right.DELETE,))
            return there is not None and self._pick(change.place, _RESTORING) is not None
        is_free = not over or self._pick(change.at_last, over) is not None
        return is_free and self._pair(change.at_last, change.place) is not None

    def takes(self, record: Trashed) -> bool:
        """Not what is held, which users can't bring back by hand either."""
        return record.status == KEPT

    # Where

    def seen(self, location: Location) -> Spot | None:
        """Where the user has it."""
        return next(self._spots(location), None)

    async def at(self, location: Location, *needed: Right) -> Spot:
        if spot := self._pick(location, needed):
            return spot
        raise Forbidden(self._tree.actor.right_missing.format("change this"))

    async def pair(self, source: Location, target: Location) -> tuple[Spot, Spot]:
        if found := self._pair(source, target):
            return found
        raise Forbidden(self._tree.actor.right_missing.format("move this"))

    def can(self, step: Step) -> bool:
        if step.action == "move":
            assert step.source
            return self._pair(step.source, step.location) is not None
        return self._pick(step.location, NEEDED[step.action]) is not None

    def needs(self, steps: Iterable[Step]) -> dict[Path, set[Right]]:
        """The rights that the steps need, by the mount."""
        found: dict[Path, set[Right]] = {}
        for step in steps:
            if step.action == "move" and step.source:
                source, target = self._pair(step.source, step.location) or (None, None)
                if source and target and source.drive is target.drive:
                    found.setdefault(source.drive.point, set()).update(_RESTORING)
                elif source and target:
                    found.setdefault(source.drive.point, set()).update((Right.DOWNLOAD, Right.DELETE))
                    found.setdefault(target.drive.point, set()).add(Right.UPLOAD)
            elif spot := self._pick(step.location, needed := NEEDED[step.action]):
                found.setdefault(spot.drive.point, set()).update(needed)
        return found

    def _spots(self, location: Location) -> Iterator[Spot]:
        if is_in_trash(location):
            return
        connection, where = location[0], Path(location[1:])
        for drive in self._drives:
            if drive.connection != connection or not drive.root.holds(where):
                continue
            path = Path(where.segments[len(drive.root.segments) :]).under(drive.point)
            place = self._tree.place(path)
            if place and drive.has(path, is_folder=True):
                yield Spot(drive, path, place)

    def _pick(self, location: Location, needed: Sequence[Right]) -> Spot | None:
        return next((spot for spot in self._movable(location) if all(map(spot.drive.allows, needed))), None)

    def _pair(self, source: Location, target: Location) -> tuple[Spot, Spot] | None:
        for one in self._movable(source):
            for other in self._movable(target):
                is_same = one.drive is other.drive
                needed = _RESTORING if is_same else (Right.DOWNLOAD, Right.DELETE)
                if all(map(one.drive.allows, needed)) and other.drive.allows(Right.UPLOAD):
                    return one, other
        return None

    def _movable(self, location: Location) -> Iterator[Spot]:
        for spot in self._spots(location):
            if not spot.path.is_root and spot.path != spot.drive.point:
                with suppress(NotPossible):
                    self._tree.require_movable(spot.path)
                    yield spot


def _ends(change: Change) -> list[Location]:
    """The places that undoing it changes."""
    return [change.at_last] if change.action == COPY else change.ends
