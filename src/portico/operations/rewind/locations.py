"""Where things are, and where they were: `Locations` goes back in time, `Touched` and `Marked` say where something happened."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from portico.model.paths import TRASH

Location = tuple[str, ...]
"""The connection, and the segments of a path from the top of its storage."""

EMPTY: Final[Location] = ("",)
"""The source of a folder that is made anew."""


def is_in_trash(location: Location) -> bool:
    return location[1:2] == (TRASH,)


def is_item(location: Location) -> bool:
    """Whether it is a whole item of the trash."""
    return is_in_trash(location) and len(location) == 3


def prefixes(location: Location) -> Iterator[Location]:
    """The location, and all that hold it."""
    return (location[:length] for length in range(1, len(location) + 1))


class _Node(msgspec.Struct):
    below: "dict[str, _Node]" = {}
    source: Location | None = None
    is_given: bool = False
    """Whether `source` says what was here; otherwise it follows from the folder above."""


class Locations:
    """For each location of an earlier time, where its content is now. At first, everything is where it is."""

    def __init__(self) -> None:
        self._top = _Node()

    def now_at(self, location: Location) -> Location | None:
        """Where the content that was at a location is now; None if there was none."""
        node, source = self._top, None
        is_given, given = False, 0
        for depth, name in enumerate(location, 1):
            found = node.below.get(name)
            if found is None:
                break
            node = found
            if node.is_given:
                is_given, source, given = True, node.source, depth
        if not is_given:
            return location
        return None if source is None else source + location[given:]

    def set(self, location: Location, origin: Location | None) -> None:
        """Before the change, what is at `origin` was at `location`, with all that is below; None: nothing was there."""
        source, below = (None, {}) if origin is None or origin == EMPTY else self._take(origin)
        node = self._top
        for name in location:
            node = node.below.setdefault(name, _Node())
        node.source, node.below, node.is_given = EMPTY if origin == EMPTY else source, below, True

    def taken_from(self, location: Location) -> list[Location]:
        """Where that is now which was below a location, and is elsewhere."""
        node: _Node | None = self._top
        for name in location:
            node = node and node.below.get(name)
        found, waiting = [], [*node.below.values()] if node else []
        while waiting:
            node = waiting.pop()
            waiting += node.below.values()
            if node.is_given and node.source and node.source != EMPTY and not is_item(node.source):
                found.append(node.source)
        return found

    def is_as_before(self, location: Location) -> bool:
        """Whether what was at a location is there now, with all that was below it."""
        node = self._top
        for name in location:
            found = node.below.get(name)
            if found is None:
                return True
            node = found
            if node.is_given:
                return False
        return not node.below

    def _take(self, location: Location) -> tuple[Location | None, dict[str, _Node]]:
        source, node = self.now_at(location), self._top
        for name in location:
            node = node.below.setdefault(name, _Node())
        below = node.below
        node.source, node.below, node.is_given = None, {}, True
        return source, below

    def moved(self) -> list[tuple[Location, Location]]:
        """Locations whose content is elsewhere now, with where it is; a folder stands for what is below it."""
        found: list[tuple[Location, Location]] = []
        waiting: list[tuple[Location, Location | None, _Node]] = [((), (), self._top)]
        while waiting:
            location, expected, node = waiting.pop()
            if node.is_given:
                if node.source is not None and node.source != expected:
                    found.append((location, node.source))
                expected = node.source
            for name, below in node.below.items():
                waiting.append(((*location, name), None if expected is None else (*expected, name), below))
        return sorted(found, key=lambda each: (len(each[0]), each[0]))


class Marked:
    """A set of locations, which knows what is near."""

    def __init__(self) -> None:
        self._locations: set[Location] = set()
        self._here_and_below: Counter[Location] = Counter()

    def add(self, location: Location) -> None:
        if location not in self._locations:
            self._locations.add(location)
            self._here_and_below.update(prefixes(location))

    def any_in(self, folder: Location) -> bool:
        """Whether one of them is the folder or below it."""
        return self._here_and_below[folder] > 0

    def any_above(self, location: Location) -> bool:
        return not self._locations.isdisjoint(prefixes(location[:-1]))

    def take(self, folder: Location) -> list[Location]:
        """Remove those that are the folder or below it."""
        found = [each for each in self._locations if each[: len(folder)] == folder] if self.any_in(folder) else []
        self._locations.difference_update(found)
        for location in found:
            self._here_and_below.subtract(prefixes(location))
        return found


class _Mark(msgspec.Struct):
    below: "dict[str, _Mark]" = {}
    here: str | None = None
    anywhere: str = ""


class Touched:
    """Locations that changes have touched, with who did it. Some storage ignores case, and a refusal loses nothing."""

    def __init__(self) -> None:
        self._top = _Mark()

    def add(self, location: Location, by: str) -> None:
        mark = self._top
        for name in location:
            mark = mark.below.setdefault(name.casefold(), _Mark())
            mark.anywhere = by
        mark.here = by

    def by(self, location: Location) -> str | None:
        """Who has touched a location, something above it or something below it."""
        mark = self._top
        for name in location:
            if mark.here is not None:
                return mark.here
            found = mark.below.get(name.casefold())
            if found is None:
                return None
            mark = found
        return mark.anywhere
