"""The difference in access between two policies: who can do what where, and where the files are kept.

A tree is cut into regions: a path and all below it, without the regions that begin deeper. Within a region, all has the
same rights and is kept in one folder. So it is enough to compare two trees at their mount points.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from portico.accounts.policy.policy import EffectiveLimits, Policy
from portico.model import timestamps
from portico.model.paths import Path, Place
from portico.model.reach import Reach
from portico.model.rights import Right, shown

_NAMES: Final = 5
"""Users named in a sentence."""
_NOTHING: Final = Reach(())


class Answer(NamedTuple):
    """What a user has at a path."""

    place: Place
    rights: frozenset[Right]


class Region(NamedTuple):
    path: Path
    before: Answer | None
    after: Answer | None


class Kind(StrEnum):
    """In the order in which changes are shown."""

    GAINS = "gains"
    LOSES = "loses"
    LEADS = "leads"
    """The same path leads to another place."""


class Part(NamedTuple):
    """A path and all below it, with exceptions."""

    path: Path
    exceptions: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"{self.path} (except {listed(map(str, self.exceptions))})" if self.exceptions else str(self.path)


class Delta(NamedTuple):
    """How an answer changed, in words that can be the same for many users and paths."""

    kind: Kind
    rights: frozenset[Right] = frozenset()
    """Those gained or lost."""
    everything: bool = False
    """Whether all access is lost."""
    before: str = ""
    """Where the path leads, with `{user}` for the user's name."""
    after: str = ""


class AccessChange(msgspec.Struct, frozen=True):
    delta: Delta
    parts: tuple[Part, ...]
    users: tuple[str, ...]

    def __str__(self) -> str:
        kind, rights, everything, before, after = self.delta
        where = listed(map(str, self.parts))
        if kind is Kind.LEADS:
            leads = "leads" if len(self.parts) == 1 else "lead"
            return f"{where} {leads} to {after} instead of {before} for {_whom(self.users)}."
        verb = "gain" if kind is Kind.GAINS else "lose"
        if everything:
            return _sentence(self.users, verb, f"all access to {where}")
        return _sentence(self.users, verb, f"{listed(shown(rights))} on {where}")


class LimitChange(msgspec.Struct, frozen=True):
    limit: str
    before: str | None
    """None if the account could not be used."""
    users: tuple[str, ...]

    def __str__(self) -> str:
        before = "" if self.before is None else f" (before: {self.before})"
        named = f" ({_names(self.users)})" if len(self.users) > 1 else ""
        who = self.users[0] if len(self.users) == 1 else f"{len(self.users)} users"
        return f"{who} can sign in {self.limit}{before}{named}."


def difference(
    old: Policy, new: Policy, now: datetime, moved: Collection[str] = ()
) -> list[AccessChange | LimitChange]:
    """How access differs, for all users of both policies. Users who can't sign in have no access.

    `moved`: connections whose folders are elsewhere in the new policy.
    """
    deltas: dict[tuple[Delta, Part], list[str]] = {}
    limits: dict[tuple[str, str | None], list[str]] = {}
    for key in sorted(old.users.keys() | new.users.keys()):
        before, after = _formerly(_usable(old, key, now), moved), _usable(new, key, now)
        name = (new if key in new.users else old).users[key].name
        for delta, part in changes(name, before, after):
            deltas.setdefault((delta, part), []).append(name)
        if after is not _NOTHING:
            former = None if before is _NOTHING else old.limits(key)
            for change in _limit_changes(former, new.limits(key)):
                limits.setdefault(change, []).append(name)
    alike: dict[tuple[Delta, tuple[str, ...]], list[Part]] = {}
    for (delta, part), users in deltas.items():
        alike.setdefault((delta, tuple(users)), []).append(part)
    found = [
        AccessChange(delta, tuple(sorted(parts, key=lambda part: part.path.segments)), users)
        for (delta, users), parts in alike.items()
    ]
    order = {kind: number for number, kind in enumerate(Kind)}
    found.sort(key=lambda each: (order[each.delta.kind], each.parts[0].path.segments))
    return [*found, *(LimitChange(*change, tuple(users)) for change, users in limits.items())]


def _usable(policy: Policy, key: str, now: datetime) -> Reach:
    return _NOTHING if key not in policy.users or policy.unusable(key, now) else policy.reach(key)


def _formerly(reach: Reach, moved: Collection[str]) -> Reach:
    """The tree with other names for the connections that lead elsewhere now."""
    if not any(mount.place.connection in moved for mount in reach.mounts):
        return reach
    return Reach(
        msgspec.structs.replace(mount, place=Place(f"the former {mount.place.connection}", mount.place.path))
        if mount.place.connection in moved
        else mount
        for mount in reach.mounts
    )


def answer(reach: Reach, path: Path) -> Answer | None:
    """None if the user has no right there."""
    mount = reach.at(path)
    return Answer(mount.place_of(path), mount.rights) if mount and mount.rights else None


def changes(name: str, old: Reach, new: Reach) -> Iterator[tuple[Delta, Part]]:
    """How the access of one user differs."""
    if old == new:
        return
    cut = list(regions(old, new))
    for kind in Kind:
        for region, exceptions in _parts(kind, cut):
            delta = _delta(kind, region)
            if kind is Kind.LEADS and region.before and region.after:
                before, after = (_with_placeholder(each.place, name) for each in (region.before, region.after))
                delta = Delta(kind, before=before, after=after)
            if delta:
                yield delta, Part(region.path, tuple(exceptions))


def regions(old: Reach, new: Reach) -> Iterator[Region]:
    """The whole tree in as few regions as possible, each after those around it."""
    points = sorted({(), *(mount.path.segments for reach in (old, new) for mount in reach.mounts)})
    around: list[Region] = []
    for path in map(Path, points):
        region = Region(path, answer(old, path), answer(new, path))
        while around and not around[-1].path.holds(path):
            around.pop()
        if not around or not _is_part_of(around[-1], region):
            around.append(region)
            yield region


def _is_part_of(outer: Region, inner: Region) -> bool:
    """Whether the mounts at the inner path make no difference."""
    return all(
        there is here
        if there is None or here is None
        else here.rights == there.rights and _follows(outer, there, inner, here)
        for there, here in ((outer.before, inner.before), (outer.after, inner.after))
    )


def _follows(outer: Region, there: Answer | None, inner: Region, here: Answer | None) -> bool:
    """Whether the inner path leads to where the outer region would have it."""
    within = Path(inner.path.segments[len(outer.path.segments) :])
    return here is not None and there is not None and here.place == there.place.below(within)


def _parts(kind: Kind, cut: Iterable[Region]) -> list[tuple[Region, list[Path]]]:
    """The outermost regions of what has the same change, each with the exceptions below it."""
    parts: list[tuple[Region, list[Path]]] = []
    around: list[tuple[Region, list[Path]]] = []
    for region in cut:
        while around and not around[-1][0].path.holds(region.path):
            around.pop()
        if around and _have_same(kind, around[-1][0], region):
            around.append((region, around[-1][1]))
            continue
        if around and _delta(kind, around[-1][0]):
            around[-1][1].append(region.path)
        around.append((region, []))
        if _delta(kind, region):
            parts.append(around[-1])
    return parts


def _delta(kind: Kind, region: Region) -> Delta | None:
    before, after = region.before, region.after
    had, has = before.rights if before else frozenset(), after.rights if after else frozenset()
    if kind is Kind.GAINS:
        return Delta(kind, has - had) if has - had else None
    if kind is Kind.LOSES:
        if before and not after:
            return Delta(kind, everything=True)
        return Delta(kind, had - has) if had - has else None
    return Delta(kind) if before and after and before.place != after.place else None


def _have_same(kind: Kind, outer: Region, inner: Region) -> bool:
    delta = _delta(kind, inner)
    if delta != _delta(kind, outer):
        return False
    return (
        kind is not Kind.LEADS
        or delta is None
        or (_follows(outer, outer.before, inner, inner.before) and _follows(outer, outer.after, inner, inner.after))
    )


def _with_placeholder(place: Place, name: str) -> str:
    return str(Place(place.connection, Path(tuple("{user}" if each == name else each for each in place.path.segments))))


def _limit_changes(old: EffectiveLimits | None, new: EffectiveLimits) -> Iterator[tuple[str, str | None]]:
    unlimited = EffectiveLimits(None, frozenset())
    former = old or unlimited
    for words in (_until, _from):
        if words(former) != words(new):
            yield words(new), words(former) if old else None


def _until(limits: EffectiveLimits) -> str:
    return f"until {timestamps.from_datetime(limits.expires_at)}" if limits.expires_at else "without end"


def _from(limits: EffectiveLimits) -> str:
    lists = sorted(" or ".join(map(str, each)) for each in limits.addresses)
    return f"only from {', and from '.join(lists)}" if lists else "from anywhere"


def _sentence(users: tuple[str, ...], verb: str, what: str) -> str:
    if len(users) == 1:
        return f"{users[0]} {verb}s {what}."
    return f"{len(users)} users {verb} {what} ({_names(users)})."


def _whom(users: tuple[str, ...]) -> str:
    return users[0] if len(users) == 1 else f"{len(users)} users ({_names(users)})"


def _names(users: tuple[str, ...]) -> str:
    more = len(users) - _NAMES
    return ", ".join(users) if more <= 1 else f"{', '.join(users[:_NAMES])} and {more} others"


def listed(words: Iterable[str]) -> str:
    """As in "one, two and three"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
