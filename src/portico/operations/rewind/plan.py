"""What has to be done to undo the changes of one actor: a plan, from the rows of the journal alone.

It goes back in time, from the newest row to the oldest. A change is left alone if another actor has touched its place, or one
above or below it, since. The plan works on places: of ten writes to one file, the version before the first is brought back, once.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from portico.model.errors import NotFound
from portico.model.paths import TRASH
from portico.model.versions import Version
from portico.observability.audit import DONE, INTERRUPTED, UNKNOWN
from portico.operations.rewind.locations import EMPTY, Location, Locations, Marked, Touched, is_in_trash, is_item
from portico.operations.rewind.steps import Step, in_order
from portico.store.history import ActorFilter
from portico.store.trash import Trashed, next_id

UPLOAD: Final = "upload"
MKDIR: Final = "mkdir"
DELETE: Final = "delete"
COPY: Final = "copy"
MOVE: Final = "move"
RESTORE: Final = "restore"
TRASH_REMOVE: Final = "trash.remove"
ACTIONS: Final = (UPLOAD, MKDIR, DELETE, COPY, MOVE, RESTORE, TRASH_REMOVE)

_UNCERTAIN: Final = ("internal", "provider-", "unavailable", INTERRUPTED)
"""How the outcomes begin after which something may have been done."""
_MIDWAY: Final = ("storage-full", "changed", "too-large")
"""Those of a folder, of which some files may have been copied, moved, restored or deleted."""

CONFLICT: Final = "conflict"
NOT_KEPT: Final = "not-kept"
NOT_KNOWN: Final = "not-known"
MERGED: Final = "merged"
OUTSIDE: Final = "outside"


class Change(msgspec.Struct):
    """A row of the journal."""

    at: int
    actor: str
    """Names who did it."""
    is_mine: bool
    """Whether it is to be undone."""
    action: str
    outcome: str
    place: Location
    target: Location | None = None
    before: Version | None = None
    after: Version | None = None
    kept: str | None = None
    """The id of the first item that it put into the trash."""
    began: int | None = None
    is_rewind: bool = False
    """Whether an earlier rewind of the same changes did it."""

    @property
    def at_last(self) -> Location:
        """Where something is now that was not there before, or the other way round."""
        return self.place if self.target is None or self.action == TRASH_REMOVE else self.target

    @property
    def ends(self) -> list[Location]:
        """Its places outside of the trash."""
        return [each for each in (self.place, self.target) if each and not is_in_trash(each)]

    @property
    def replaced(self) -> bool:
        return self.before is not None and self.action in (UPLOAD, COPY, MOVE, RESTORE)

    @property
    def is_merge(self) -> bool:
        return self.before is not None and self.before.is_folder and self.action in (COPY, MOVE, RESTORE)

    @property
    def former(self) -> Location | None:
        """Where the trash keeps what it has replaced."""
        return _in_trash(self.at_last, self.kept) if self.replaced and self.kept else None

    @property
    def deleted(self) -> Location | None:
        """Where the trash keeps what it has deleted, also after a move to another service."""
        if not self.kept or self.action not in (DELETE, MOVE):
            return None
        if self.action == DELETE:
            return _in_trash(self.place, self.kept)
        if self.place[0] == self.at_last[0]:
            return None
        return _in_trash(self.place, next_id(self.kept) if self.replaced else self.kept)

    @property
    def touched(self) -> list[Location]:
        """All that it has changed, the items of the trash included."""
        if self.action == TRASH_REMOVE:
            return [self.target] if self.target else []
        other = self.place if self.action in (MOVE, RESTORE) else None
        return [each for each in (self.at_last, other, self.former, self.deleted) if each]


class LeftAlone(msgspec.Struct, omit_defaults=True):
    """Something that is not undone."""

    why: str
    location: Location
    action: str = ""
    at: int = 0
    by: str = ""
    """Who touched it since."""


class Plan(msgspec.Struct):
    steps: list[Step]
    left_alone: list[LeftAlone]
    undone: int = 0
    """How many changes the steps undo."""
    seen: int = 0
    """The number of the last row of the journal that is taken into account."""
    related: list[ActorFilter] = []
    """Links and keys that belong to the same user, and seem to be the actor's, too."""


class Scope(Protocol):
    """Which of the actor's changes are undone."""

    removals: bool
    """Whether what was removed from the trash for good comes back."""

    def concerns(self, change: Change) -> bool:
        """Whether a change is undone, or at least reported."""

    def refusal(self, change: Change) -> str | None:
        """Why a change is left alone; None if it isn't."""

    def takes(self, record: Trashed) -> bool:
        """Whether an item of the trash may be brought back."""


class Within:
    """All changes in a folder."""

    removals = True

    def __init__(self, folder: Location = ()) -> None:
        self._folder = folder

    def concerns(self, change: Change) -> bool:
        """Whether one of its places is in the folder, or holds it."""
        return any(location_holds(self._folder, end) or location_holds(end, self._folder) for end in change.ends)

    def refusal(self, change: Change) -> str | None:
        return None if all(location_holds(self._folder, end) for end in change.ends) else OUTSIDE

    def takes(self, _: Trashed) -> bool:
        return True


def location_holds(folder: Location, location: Location) -> bool:
    return location[: len(folder)] == folder


def plan(
    changes: Iterable[Change], kept: Collection[str], within: Location = (), *, scope: Scope | None = None
) -> Plan:
    """`changes`: from the newest to the oldest. `kept`: the ids of what the trash has, or holds. `within`: only what is there,
    unless the `scope` says it."""
    planner, rows = _Planner(scope or Within(within)), [*changes]
    for index, change in enumerate(rows):
        planner.go_back(change, _meanwhile(rows, index))
    return planner.plan(kept)


def _meanwhile(rows: Sequence[Change], index: int) -> str | None:
    """Who changed something at the places of a folder while it was copied, moved or restored: that ended before."""
    mine, others = rows[index], Touched()
    if not mine.is_mine or mine.began is None or not (mine.after and mine.after.is_folder):
        return None
    for older in islice(rows, index + 1, None):
        if older.at <= mine.began:
            break
        if not older.is_mine and effect_of(older):
            for location in older.touched:
                others.add(location, older.actor)
    return next(filter(None, map(others.by, mine.touched)), None)


class _Planner:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._was = Locations()
        self._touched = Touched()
        self._left: dict[Location, Version | None] = {}
        """What the actor left, by where it is now."""
        self._discarded: list[Location] = []
        self._made: list[Location] = []
        """Folders that the actor made."""
        self._over: dict[Location, Location] = {}
        """What the actor left, by the item of the trash that it replaced."""
        self._hidden: list[Location] = []
        """What the actor removed from the trash, or may have."""
        self._mixed = Marked()
        """Where the actor has merged one folder into another, or a change may have stopped halfway. If that stopped the undoing
        of what was done there before, one such request would save a thief's work."""
        self._made_by_others = Marked()
        """Folders that another one has made, too, after the actor: they stay."""
        self._rejoined: list[Step] = []
        """What a change that may have stopped halfway has taken away goes back first."""
        self._begun: set[Location] = set()
        """Where part of something may be: a restore or a move to it may have stopped halfway."""
        self._left_alone: list[LeftAlone] = []
        self._undone = 0

    def go_back(self, change: Change, meanwhile: str | None) -> None:
        """`meanwhile`: who changed something at its places while it was made."""
        effect = effect_of(change)
        if change.action == MKDIR and change.before and change.outcome == DONE and not change.is_mine:
            self._made_by_others.add(change.at_last)
        if effect == UNKNOWN and change.is_mine and change.action in (MOVE, RESTORE):
            self._begun.add(change.at_last)
        if not effect or (effect == UNKNOWN and change.is_rewind and not change.kept):
            return  # a rewind that failed is repeated, and looks what is there
        if change.is_mine and change.action == TRASH_REMOVE and not self._scope.removals:
            return
        if not change.is_mine or not self._scope.concerns(change):
            self._touch(change, change.actor)
        elif by := meanwhile or next(filter(None, map(self._touched.by, change.touched)), None):
            self._leave(change, CONFLICT, by)
        elif self._is_mixed(change):
            self._leave(change, MERGED)
        elif refusal := self._scope.refusal(change):
            self._leave(change, refusal)
        elif effect == UNKNOWN:
            if not self._rejoin(change):
                self._leave(change, NOT_KNOWN)
        elif why := self._undo(change):
            self._leave(change, why)
        elif not change.is_rewind:
            self._undone += 1

    def _is_mixed(self, change: Change) -> bool:
        """Whether it cannot be told from what was copied or moved to the same place. A file can: by its version."""
        if change.action in (UPLOAD, MKDIR, DELETE, TRASH_REMOVE):
            return False
        at = change.at_last
        if change.action == MOVE and not change.replaced and not change.deleted:
            return self._mixed.any_above(at)  # otherwise it is moved back with all that is in it
        return self._mixed.any_above(at) or self._mixed.any_in(at)

    def _touch(self, change: Change, by: str) -> None:
        for location in change.touched:
            self._touched.add(location, by)

    def _leave(self, change: Change, why: str, by: str = "") -> None:
        """What the actor did there before is left alone, too, unless each step can see whether it fits what is there."""
        self._left_alone.append(LeftAlone(why, change.at_last, change.action, change.at, by))
        self._hidden += [each for each in (change.former, change.deleted) if each]  # it may have been deleted for good
        if why not in (MERGED, NOT_KNOWN):
            self._touch(change, by or change.actor)
        elif change.action != RESTORE or change.is_merge:
            self._mixed.add(change.at_last)

    def _rejoin(self, change: Change) -> bool:
        """Undo what may have stopped halfway: whatever has arrived goes back, and the rest is still where it was."""
        if change.action == DELETE and change.deleted:
            arrived, action = change.deleted, "restore"
        elif change.action == MOVE and change.place[0] == change.at_last[0] and not change.replaced:
            arrived, action = change.at_last, "move"
        else:
            return False
        if not (self._was.is_as_before(arrived) and self._was.is_as_before(change.place)):
            return False
        self._rejoined.append(Step(action, change.place, arrived, merges=True))
        self._undone += not change.is_rewind
        return True

    def _undo(self, change: Change) -> str | None:
        """Or why it cannot be undone."""
        at = change.at_last
        match change.action:
            case "mkdir":
                self._unmake(at)
            case "delete" if change.deleted:
                self._make_way(at)
                self._was.set(at, change.deleted)
            case "delete" if change.before and change.before.is_folder:
                self._make_way(at)
                self._was.set(at, EMPTY)
            case "trash.remove" if change.kept:
                self._hidden.append(_in_trash(change.place, change.kept))
            case "delete" | "trash.remove":
                return NOT_KEPT
            case _ if change.before and change.before.is_folder:
                return MERGED
            case _ if change.replaced and not change.former:
                return NOT_KEPT
            case "move" | "restore" if not change.deleted:
                self._leaves(at, change)
                self._make_way(change.place)
                for each in self._mixed.take(at):
                    self._mixed.add(each)
                    self._mixed.add(change.place + each[len(at) :])
                self._was.set(change.place, at)
                self._was.set(at, change.former)
            case _:
                if here := self._leaves(at, change):
                    self._discarded += [here, *self._was.taken_from(at)]
                self._was.set(at, change.former)
                if change.deleted:
                    self._make_way(change.place)
                    self._was.set(change.place, change.deleted)
        for depth in range(1, 1 + (change.after.made_folders if change.after else 0)):
            if not self._touched.by(at[:-depth]):  # otherwise others use it
                self._unmake(at[:-depth])
        return None

    def _leaves(self, location: Location, change: Change) -> Location | None:
        """Where it is now, if it is anywhere."""
        here = self._was.now_at(location)
        if here:
            self._left.setdefault(here, change.after)
            if change.former:
                self._over[change.former] = here
        return here

    def _unmake(self, folder: Location) -> None:
        if self._mixed.any_in(folder) or self._made_by_others.any_in(folder):
            return
        if (here := self._was.now_at(folder)) and here != EMPTY:
            self._made.append(here)
        self._was.set(folder, None)

    def _make_way(self, folder: Location) -> None:
        """For what was there earlier: what the actor has copied or moved there since stays, under another name."""
        if self._mixed.take(folder):
            self._was.set((*folder[:-1], f"{folder[-1]} (merged)"), folder)

    def plan(self, kept: Collection[str]) -> Plan:
        moved: list[tuple[Location, Location]] = []
        instead: set[Location] = set()
        """What stays, because what it replaced is not there any more."""
        for location, source in self._was.moved():
            if is_in_trash(location):
                if source[0] and not is_item(source):  # it was restored
                    self._discarded.append(source)
            elif is_in_trash(source) and source[2] not in kept:
                self._left_alone.append(LeftAlone(NOT_KEPT, location))
                while newer := self._over.get(source):
                    source = newer
                instead.add(source)
            else:
                moved.append((location, source))
        discarded = [each for each in self._discarded if each not in instead]
        again = {location for location, source in moved if source == EMPTY}.intersection(self._made)
        again -= {source for _, source in moved}  # removed, and made again: it stays
        moved = [each for each in moved if each[0] not in again]
        steps = []
        for step in self._rejoined:
            if step.source and is_in_trash(step.source) and step.source[2] not in kept:
                self._left_alone.append(LeftAlone(NOT_KEPT, step.location, DELETE))
            else:
                steps.append(step)
        steps += in_order(moved, discarded, [each for each in self._made if each not in again], self._left)
        for step in steps:
            step.merges |= step.action in ("move", "restore") and step.location in self._begun
        restored = {step.source[2] for step in steps if step.source and is_in_trash(step.source)}
        hidden = [item for item in dict.fromkeys(self._hidden) if item[2] in kept and item[2] not in restored]
        steps += [Step("show", item) for item in hidden]
        return Plan(steps, self._left_alone[::-1], self._undone)


def _in_trash(location: Location, trash_id: str) -> Location:
    return (location[0], TRASH, trash_id)


def effect_of(change: Change) -> str:
    """`done`, `unknown`, or nothing."""
    if change.action not in ACTIONS or (change.action == MKDIR and change.before):
        return ""
    if change.outcome in (DONE, UNKNOWN):
        return change.outcome
    merged = change.replaced and change.before and change.before.is_folder
    if change.kept or (merged and change.outcome != NotFound.code):
        return UNKNOWN  # what it did before it failed
    if change.outcome in _MIDWAY and change.action not in (UPLOAD, MKDIR):
        return UNKNOWN
    if not change.outcome.startswith(_UNCERTAIN):
        return ""
    if change.outcome == INTERRUPTED and change.action in (UPLOAD, MKDIR, TRASH_REMOVE):
        return ""
    return UNKNOWN
