"""`Reach`: a user's tree, as a table of mounts. `Mount`: a folder of a connection at a path of the tree, with rights."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TypeVar

import msgspec

from portico.model.errors import InvalidPath
from portico.model.paths import Path, Place, name_flaw
from portico.model.rights import Right, format_rights

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{[^{}]*\}")
_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""What Unicode calls default ignorable: file systems that ignore case may ignore it, too."""
_NO_NAMES: dict[str, bool] = {}

End = TypeVar("End", int, datetime)
Ranges = TypeVar("Ranges", bound=Sized)


class Mount(msgspec.Struct, frozen=True):
    path: Path
    """In the tree."""
    place: Place
    rights: frozenset[Right]
    """If empty, the mount hides what the mount above it has there."""
    group: str | None = None
    """The group that gives it; None for the user's own."""

    def place_of(self, path: Path) -> Place:
        """Where a path of the tree is kept, if it belongs to this mount."""
        within = path.segments[len(self.path.segments) :]
        return self.place.below(Path(within, path.as_folder)) if within else self.place

    def path_of(self, place: Place) -> Path | None:
        """Where the tree would have this place, unless another mount hides it; None if it is not below this mount."""
        within = self.place.path_to(place)
        return None if within is None else within.under(self.path)


class Reach:
    """The longest matching path wins. A folder above a mount point, but below no mount, is virtual: it holds mount
    points only."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self.mounts = tuple(sorted(mounts, key=lambda mount: mount.path.segments))
        self._at = {mount.path.segments: mount for mount in self.mounts}
        self._whole = self.mounts[0] if len(self.mounts) == 1 and self.mounts[0].path.is_root else None

    @classmethod
    def of(cls, place: Place, rights: Collection[Right]) -> "Reach":
        """One place as the whole tree."""
        return cls([Mount(Path(), place, frozenset(rights))])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reach) and self.mounts == other.mounts

    def __hash__(self) -> int:
        return hash(self.mounts)

    @property
    def is_simple(self) -> bool:
        """Whether one mount is the whole tree."""
        return self._whole is not None

    @cached_property
    def rights(self) -> frozenset[Right]:
        """The union over all mounts."""
        return frozenset().union(*(mount.rights for mount in self.mounts))

    def at(self, path: Path) -> Mount | None:
        """The mount that a path belongs to; None if the path is virtual or hidden, or leads nowhere.

        A mount that is the whole tree is never hidden: a user without rights gets 403 instead of 404.
        """
        if self._whole:
            return self._whole
        mount = self.deepest(path)
        return mount if mount and mount.rights else None

    def deepest(self, path: Path) -> Mount | None:
        """As `at`, including mounts without rights."""
        segments = path.segments
        for depth in range(len(segments), -1, -1):
            if mount := self._at.get(segments[:depth]):
                return mount
        return None

    def place_of(self, path: Path) -> Place | None:
        """Where a path is kept; None if it is virtual, or leads nowhere."""
        mount = self.at(path)
        return mount.place_of(path) if mount else None

    def is_point(self, path: Path) -> bool:
        """Whether a mount begins here."""
        return path.segments in self._at

    def is_virtual(self, path: Path) -> bool:
        return self.at(path) is None and (path.is_root or any(self.names_in(path).values()))

    def names_in(self, folder: Path) -> Mapping[str, bool]:
        """Names in a folder that are mount points, or lead to one; false for a mount point that is hidden."""
        return _NO_NAMES if self._whole else self._names.get(folder.segments, _NO_NAMES)

    @cached_property
    def _names(self) -> dict[tuple[str, ...], dict[str, bool]]:
        names: dict[tuple[str, ...], dict[str, bool]] = {}
        for mount in self.mounts:
            last = len(mount.path.segments) - 1
            for depth, name in enumerate(mount.path.segments):
                if mount.rights or depth == last:
                    inner = names.setdefault(mount.path.segments[:depth], {})
                    inner[name] = inner.get(name, False) or bool(mount.rights)
        return names

    def below(self, folder: Path) -> Iterator[Mount]:
        """The mounts that begin below a folder, in the order of their paths."""
        depth = len(folder.segments)
        for mount in () if self._whole else self.mounts:
            if len(mount.path.segments) > depth and folder.holds(mount.path):
                yield mount

    def spelled(self, path: Path) -> tuple[Path, Mount] | None:
        """The path as the table spells it, with the mount that the path belongs to as given; None if both agree.

        The two differ only in the case of a mount point, or of a folder that leads to one. They are the same folder if
        that mount's storage ignores case.
        """
        outer = None if self._whole else self.deepest(path)
        if outer is None:
            return None
        depth, like = len(outer.path.segments), [*map(folded, path.segments)]
        best, found = (False, 0, True), path.segments
        for mount in self.below(outer.path):
            names, shared = mount.path.segments, depth
            for name, segment in zip(names[depth:], like[depth:], strict=False):
                if folded(name) != segment:
                    break
                shared += 1
            rank = (shared == len(names), shared, names[:shared] == path.segments[:shared])
            if shared > depth and rank > best:
                best, found = rank, names[:shared] + path.segments[shared:]
        return None if found == path.segments else (Path(found, path.as_folder), outer)

    def spelling(self, path: Path) -> Path:
        """As the table spells it, if the storage ignores case."""
        spelled = self.spelled(path)
        return spelled[0] if spelled else path

    def is_doubtful(self, path: Path) -> bool:
        """Whether another mount has the path if the storage ignores case."""
        return self.deepest(self.spelling(path)) is not self.deepest(path)

    def paths_of(self, place: Place) -> Iterator[tuple[Path, Mount]]:
        """Where the tree has this place; mounts may overlap. The mount of the deepest folder comes first."""
        found = [
            (path, mount)
            for mount in self.mounts
            if (path := mount.path_of(place)) is not None and self.at(path) is mount and not self.is_doubtful(path)
        ]
        found.sort(key=lambda each: -len(each[1].place.path.segments))
        yield from found

    def path_of(self, place: Place) -> Path | None:
        """The first of them."""
        return next((path for path, _ in self.paths_of(place)), None)

    def limited_to(self, folder: Path, rights: Collection[Right]) -> "Reach":
        """A folder as the whole tree, with some of the rights. What may be another mount's in another case is hidden."""
        outer = None if self.is_doubtful(folder) else self.at(folder)
        mounts = [outer, *self.below(folder)] if outer else [*self.below(folder)]
        depth = len(folder.segments)
        limited = {
            mount.path.segments[depth:]: Mount(
                Path(mount.path.segments[depth:]),
                mount.place_of(folder) if mount is outer else mount.place,
                mount.rights.intersection(rights),
                mount.group,
            )
            for mount in mounts
        }
        like = [*map(folded, folder.segments)]
        for mount in self.below(outer.path) if outer else ():
            within = mount.path.segments[depth:]
            if within and [*map(folded, mount.path.segments[:depth])] == like:
                limited.setdefault(within, Mount(Path(within), mount.place, frozenset(), mount.group))
        return Reach(limited.values())

    def shared_for(self, rights: Collection[Right]) -> "Reach":
        """The part that guests with these rights get: nothing of a mount without `share`."""
        return Reach(
            msgspec.structs.replace(
                mount, rights=mount.rights.intersection(rights) if Right.SHARE in mount.rights else frozenset()
            )
            for mount in self.mounts
        )

    @cached_property
    def digest(self) -> str:
        """Short, for cursors."""
        return sha256(str(self).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def __str__(self) -> str:
        """Two lines per mount. Equal for equal trees only, whichever groups give the mounts. No path has a tab in it."""
        points = ("" if mount.path.is_root else f"{mount.path}\t" for mount in self.mounts)
        lines = (
            f"{point}{mount.place}\n{format_rights(mount.rights)}"
            for point, mount in zip(points, self.mounts, strict=True)
        )
        return "\n".join(lines)


class MountRule(msgspec.Struct, frozen=True):
    """A mount as an administrator gives it to a user or a group."""

    path: Path
    connection: str
    folder: str
    """In the connection. `{user}` and `{group}` stand for the names of those who get the mount, `{{` and `}}` for braces."""
    rights: frozenset[Right]

    @property
    def is_personal(self) -> bool:
        """Whether each user gets a folder of their own."""
        return "{user}" in _PLACEHOLDER.findall(self.folder)

    def mount_for(self, user: str, group: str | None = None) -> Mount:
        """`InvalidPath` if a placeholder cannot be replaced."""
        names = {"{user}": user, "{group}": group, "{{": "{", "}}": "}"}

        def name(placeholder: re.Match[str]) -> str:
            if (given := names.get(placeholder[0])) is None:
                raise InvalidPath(
                    f"{placeholder[0]} can't be replaced here; use {{user}}, or {{group}} in a group's mount. "
                    "Write '{{' for a brace itself."
                )
            if given not in "{}" and (flaw := name_flaw(given)):
                raise InvalidPath(f"The folder of '{given}' can't be made: the name {flaw}.")
            return given

        # Parsed first: a name replaces a part of one segment, whatever it contains.
        folder = Path()
        for segment in Path.parse(self.folder).segments:
            folder = folder.child(_PLACEHOLDER.sub(name, segment))
        return Mount(self.path, Place(self.connection, folder), self.rights, group)


def reach_of(user: str, own: Iterable[MountRule], groups: Iterable[tuple[str, Iterable[MountRule]]]) -> Reach:
    """What a user reaches. At the same path, the user's own mount wins over a group's, and an earlier group over a later."""
    mounts: dict[Path, Mount] = {rule.path: rule.mount_for(user) for rule in own}
    for group, rules in groups:
        for rule in rules:
            mounts.setdefault(rule.path, rule.mount_for(user, group))
    return Reach(mounts.values())


def strictest(ends: Iterable[End | None], ranges: Iterable[Ranges]) -> tuple[End | None, list[Ranges]]:
    """Of a user's own limits and those of the groups: the first end, and all address ranges, each of which must match."""
    return min((end for end in ends if end is not None), default=None), [each for each in ranges if each]


@lru_cache(maxsize=10_000)
def folded(name: str) -> str:
    """Equal for names that some storage treats as the same."""
    if name.isascii():
        return name.lower()
    shown = _IGNORED.sub("", unicodedata.normalize("NFD", name))
    return unicodedata.normalize("NFC", shown.upper().casefold())
