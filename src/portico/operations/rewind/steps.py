"""The steps of a plan, in an order in which no step is in the way of another."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from portico.model.versions import Version
from portico.operations.rewind.locations import EMPTY, Location, is_in_trash, is_item


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
        self._moved = [*moved]
        self._next = 0
        """The first of `moved` that is not placed."""
        found = dict.fromkeys(discarded)
        ends = {end for pair in moved for end in pair}
        self._over = {
            location
            for location, source in moved
            if location in found and is_item(source) and not _is_folder(left.get(location))
            if ends.isdisjoint(_prefixes([location[:-1]]))
        }
        """Files over which the trash restores another one."""
        self._left = [left.get(each[0] if each[0] in self._over else each[1]) for each in moved]
        """Of each of `moved`, what the actor left."""
        self._discarded = [each for each in found if each not in self._over]
        self._versions = [left.get(each) for each in self._discarded]
        self._removed: set[int] = set()
        """Which of `_discarded` have a step."""
        self._made = [*dict.fromkeys(made)]
        self._steps: list[Step] = []
        self._aside = 0
        self._count()

    def _count(self) -> None:
        """How many sources, and how many that are in the way, are at a location or below it: mostly none."""
        self._sources = Counter(_prefixes(source for _, source in self._moved[self._next :]))
        waiting = [each for index, each in enumerate(self._discarded) if index not in self._removed]
        self._in_the_way = Counter(_prefixes((*waiting, *self._made)))

    def steps(self) -> list[Step]:
        self._remove(())
        for location, _ in [*self._moved]:
            self._place(location)
        self._remove(())
        self._tidy(())
        return self._steps

    def _remove(self, above: Location) -> None:
        """What was discarded, but not what is in the trash until it is restored with its folder."""
        for index in range(len(self._discarded)):
            location = self._discarded[index]  # now: it may have made way for another one
            if index not in self._removed and location[: len(above)] == above and not is_in_trash(location):
                self._removed.add(index)
                self._clear(location)
                self._steps.append(Step("remove", location, left=self._versions[index]))

    def _tidy(self, above: Location) -> None:
        found = [each for each in self._made if each[: len(above)] == above and not is_in_trash(each)]
        self._steps += [Step("tidy", folder) for folder in sorted(found, key=len, reverse=True)]
        self._made = [each for each in self._made if each not in found]

    def _place(self, location: Location) -> None:
        if self._moved[self._next][1] != location:
            self._clear(location)
        if self._in_the_way[location] > 0:
            self._remove(location)
            self._tidy(location)
        _, source = self._moved[self._next]  # now: it may have made way, too
        self._next += 1
        for prefix in _prefixes([source]):
            self._sources[prefix] -= 1
        if source == location:
            return
        if source == EMPTY:
            self._steps.append(Step("make", location))
            return
        action = "restore" if is_item(source) else "move"
        self._steps.append(Step(action, location, source, self._left[self._next - 1]))
        if self._sources[source] > 0 or self._in_the_way[source] > 0:
            self._rename(source, location)

    def _clear(self, location: Location) -> None:
        """Move whatever is at a location or below it, and is needed elsewhere, out of the way."""
        while self._sources[location] > 0:
            waiting = range(self._next, len(self._moved))
            index = next(each for each in waiting if self._moved[each][1][: len(location)] == location)
            source = self._moved[index][1]
            self._aside += 1
            aside = (*location[:-1], f"{source[-1]} (set aside {self._aside})")
            self._steps.append(Step("move", aside, source, self._left[index]))
            self._rename(source, aside)

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


def _is_folder(version: Version | None) -> bool:
    return version is not None and version.is_folder
