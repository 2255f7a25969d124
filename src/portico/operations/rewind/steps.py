"""The steps of a plan, in an order in which no step is in the way of another."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from portico.model.paths import TRASH
from portico.model.versions import Version
from portico.operations.rewind.locations import EMPTY, Location


class Step(msgspec.Struct, omit_defaults=True):
    action: str
    """`restore`, `remove`, `move`, `make`, `tidy` (remove a folder if it is empty) or `show` (in the trash again)."""
    location: Location
    source: Location | None = None
    left: Version | None = None
    """What the actor left: anything else is not touched."""


def in_order(
    moved: Sequence[tuple[Location, Location]],
    discarded: Iterable[Location],
    made: Iterable[Location],
    left: Mapping[Location, Version | None],
) -> list[Step]:
    """`moved`: what is to be where, folders before what is in them, with where it is now. `discarded`, `made`: what the actor
    left, and folders that the actor made, where they are now."""
    return _Order(moved, discarded, made, left).steps()


class _Order:
    def __init__(
        self,
        moved: Sequence[tuple[Location, Location]],
        discarded: Iterable[Location],
        made: Iterable[Location],
        left: Mapping[Location, Version | None],
    ) -> None:
        self._left = left
        self._moved = [*moved]
        self._next = 0
        """The first of `moved` that is not placed."""
        over = {location for location, source in moved if _is_item(source)}
        self._over = {each for each in discarded if each in over and not _is_folder(left.get(each))}
        """Files over which the trash restores another one."""
        self._discarded = [each for each in dict.fromkeys(discarded) if each not in self._over]
        self._versions = [left.get(each) for each in self._discarded]
        self._made = [*dict.fromkeys(made)]
        self._steps: list[Step] = []
        self._aside = 0
        self._count()

    def _count(self) -> None:
        """How many sources, and how many locations in all, are at a location or below it: mostly none but itself."""
        self._sources = Counter(_prefixes(source for _, source in self._moved[self._next :]))
        self._locations = self._sources + Counter(_prefixes((*self._discarded, *self._made)))

    def steps(self) -> list[Step]:
        later = []
        for index, location in enumerate(self._discarded):
            if location[1:2] == (TRASH,):  # until it is restored with its folder
                later.append(index)
            else:
                self._clear(location)
                self._steps.append(Step("remove", location, left=self._versions[index]))
        for location, _ in [*self._moved]:
            self._place(location)
        for index in later:
            if self._discarded[index][1:2] != (TRASH,):
                self._steps.append(Step("remove", self._discarded[index], left=self._versions[index]))
        for folder in sorted(self._made, key=len, reverse=True):
            if folder[1:2] != (TRASH,):
                self._steps.append(Step("tidy", folder))
        return self._steps

    def _place(self, location: Location) -> None:
        _, source = self._moved[self._next]
        self._next += 1
        if source == EMPTY:
            self._steps.append(Step("make", location))
            return
        for prefix in _prefixes([source]):
            self._sources[prefix] -= 1
        self._clear(location)
        left = self._left.get(location if location in self._over else source)
        self._steps.append(Step("restore" if _is_item(source) else "move", location, source, left))
        if self._locations[source] > 1:  # more than itself
            self._rename(source, location)

    def _clear(self, location: Location) -> None:
        """What is at a location, or below it, and is needed elsewhere, makes way."""
        while self._sources[location] > 0:
            source = next(found for _, found in self._moved[self._next :] if found[: len(location)] == location)
            self._aside += 1
            aside = (*location[:-1], f"{source[-1]} (set aside {self._aside})")
            self._steps.append(Step("move", aside, source, self._left.get(source)))
            self._rename(source, aside)
            self._count()

    def _rename(self, old: Location, new: Location) -> None:
        def renamed(location: Location) -> Location:
            return new + location[len(old) :] if location[: len(old)] == old else location

        self._moved = [(location, renamed(source)) for location, source in self._moved]
        self._discarded = [*map(renamed, self._discarded)]
        self._made = [*map(renamed, self._made)]
        self._count()


def _prefixes(locations: Iterable[Location]) -> Iterator[Location]:
    for location in locations:
        for length in range(1, len(location) + 1):
            yield location[:length]


def _is_item(location: Location) -> bool:
    """Whether it is a whole item of the trash."""
    return location[1:2] == (TRASH,) and len(location) == 3


def _is_folder(version: Version | None) -> bool:
    return version is not None and version.is_folder
