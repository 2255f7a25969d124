"""The steps of a plan, in an order in which no step is in the way of another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from portico.model.versions import Version
from portico.operations.rewind.locations import EMPTY, Location, is_in_trash, is_item, prefixes


class Step(msgspec.Struct, omit_defaults=True):
    action: str
    """`restore`, `remove`, `move`, `make`, `tidy` (remove a folder if it is empty) or `show` (in the trash again)."""
    location: Location
    source: Location | None = None
    left: Version | None = None
    """What the actor left: anything else is not touched."""
    merges: bool = False
    """Whether part of it may be there already, so that the rest is merged into it."""


def in_order(
    moved: Sequence[tuple[Location, Location]],
    discarded: Iterable[Location],
    made: Iterable[Location],
    left: Mapping[Location, Version | None],
) -> list[Step]:
    """`moved`: what is to be where, folders before what is in them, with where it is now. `discarded`, `made`: what the actor
    left, and folders that the actor made, where they are now."""
    return _Order(moved, discarded, made, left).steps()


class _Node:
    """A location as it is after the steps so far, with what waits for a step there."""

    def __init__(self, name: str = "", above: "_Node | None" = None) -> None:
        self.name, self.above = name, above
        self.below: dict[str, _Node] = {}
        self.sources: set[int] = set()
        """Which of `moved` it is the source of."""
        self.discarded: int | None = None
        self.made: int | None = None
        """Their numbers, if it is one of them."""
        self.wanted = 0
        """How many sources are here and below."""
        self.in_the_way = 0
        """The same of what was discarded or made."""

    @property
    def location(self) -> Location:
        names = []
        node = self
        while node.above:
            names.append(node.name)
            node = node.above
        return tuple(reversed(names))

    def at(self, location: Location) -> "_Node":
        node = self
        for name in location:
            if name not in node.below:
                node.below[name] = _Node(name, node)
            node = node.below[name]
        return node

    def count(self, *, wanted: int = 0, in_the_way: int = 0) -> None:
        node: _Node | None = self
        while node:
            node.wanted += wanted
            node.in_the_way += in_the_way
            node = node.above

    def waiting(self) -> "Iterator[_Node]":
        """Here and below, where anything waits."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            yield node
            nodes += (each for each in node.below.values() if each.wanted or each.in_the_way)


class _Order:
    def __init__(
        self,
        moved: Sequence[tuple[Location, Location]],
        discarded: Iterable[Location],
        made: Iterable[Location],
        left: Mapping[Location, Version | None],
    ) -> None:
        self._moved = moved
        self._next = 0
        """The first of `moved` that is not placed."""
        found = dict.fromkeys(discarded)
        ends = {end for pair in moved for end in pair}
        over = {
            location
            for location, source in moved
            if location in found and is_item(source) and not _is_folder(left.get(location))
            if ends.isdisjoint(prefixes(location[:-1]))
        }
        """Files over which the trash restores another one."""
        self._left = [left.get(location if location in over else source) for location, source in moved]
        """Of each of `moved`, what the actor left."""
        self._top = _Node()
        self._sources = [self._top.at(source) for _, source in moved]
        for number, node in enumerate(self._sources):
            node.sources.add(number)
            node.count(wanted=1)
        discarded = [each for each in found if each not in over]
        self._versions = [left.get(each) for each in discarded]
        for number, location in enumerate(discarded):
            node = self._top.at(location)
            node.discarded = number
            node.count(in_the_way=1)
        for number, location in enumerate(dict.fromkeys(made)):
            node = self._top.at(location)
            node.made = number
            node.count(in_the_way=1)
        self._steps: list[Step] = []
        self._aside = 0

    def steps(self) -> list[Step]:
        self._remove(self._top)
        for location, _ in self._moved:
            self._place(location)
        self._remove(self._top)
        self._tidy(self._top)
        return self._steps

    def _remove(self, above: _Node) -> None:
        """What was discarded, but not what is in the trash until it is restored with its folder."""
        found = {node.discarded: node for node in above.waiting() if node.discarded is not None}
        for number in sorted(found):
            node = found[number]
            location = node.location  # now: it may have made way for another one
            if location[: len(above.location)] == above.location and not is_in_trash(location):
                node.discarded = None
                node.count(in_the_way=-1)
                self._clear(node)
                self._steps.append(Step("remove", location, left=self._versions[number]))

    def _tidy(self, above: _Node) -> None:
        found = {node.made: node for node in above.waiting() if node.made is not None}
        folders = [(found[number], found[number].location) for number in sorted(found)]
        for node, location in sorted(folders, key=lambda each: -len(each[1])):
            if not is_in_trash(location):
                node.made = None
                node.count(in_the_way=-1)
                self._steps.append(Step("tidy", location))

    def _place(self, location: Location) -> None:
        node = self._sources[self._next]
        if node.location != location:
            self._clear(self._top.at(location))
            if node.location == location[: len(node.location)]:  # into itself
                self._set_aside(self._next, node.location)
        target = self._top.at(location)
        if target.in_the_way:
            self._remove(target)
            self._tidy(target)
        source = node.location  # now: it may have made way, too
        node.sources.remove(self._next)
        node.count(wanted=-1)
        left = self._left[self._next]
        self._next += 1
        if source == EMPTY:
            self._steps.append(Step("make", location))
        elif source != location:
            self._steps.append(Step("restore" if is_item(source) else "move", location, source, left))
            if node.wanted or node.in_the_way:
                self._rename(node, target)

    def _clear(self, place: _Node) -> None:
        """Move whatever is at a location or below it, and is needed elsewhere, out of the way."""
        if not place.wanted:
            return
        location = place.location
        for number in sorted(number for node in place.waiting() for number in node.sources):
            source = self._sources[number].location
            if source[: len(location)] == location:  # otherwise it was moved with its folder
                self._set_aside(number, location)

    def _set_aside(self, number: int, location: Location) -> None:
        node = self._sources[number]
        source = node.location
        self._aside += 1
        aside = (*location[:-1], f"{source[-1]} (set aside {self._aside})")
        self._steps.append(Step("move", aside, source, self._left[number]))
        self._rename(node, self._top.at(aside))

    def _rename(self, node: _Node, place: _Node) -> None:
        """What is at a location is at `place` now, where nothing waits."""
        above, target = node.above, place.above
        assert above
        assert target
        above.count(wanted=-node.wanted, in_the_way=-node.in_the_way)
        del above.below[node.name]
        node.name, node.above = place.name, target
        target.below[place.name] = node
        target.count(wanted=node.wanted, in_the_way=node.in_the_way)


def _is_folder(version: Version | None) -> bool:
    return version is not None and version.is_folder
