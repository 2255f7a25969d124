from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from itertools import product
from random import Random

import msgspec
import pytest

from portico.accounts.policy.access import AccessChange, Answer, Kind, answer, difference
from portico.accounts.policy.policy import GroupPolicy, Limits, Policy, UserPolicy
from portico.model.paths import Path, Place
from portico.model.reach import Reach

from .policies import NAMES, Mounts, generated, mounts, policy

NOW = datetime(2026, 11, 19, tzinfo=UTC)
PATHS = [Path(segments) for depth in range(4) for segments in product(NAMES, repeat=depth)]
PATHS += [Path((*path.segments, NAMES[0])) for path in PATHS if len(path.segments) == 3]


def words(old: Policy, new: Policy) -> list[str]:
    return [str(each) for each in difference(old, new, NOW)]


def answers(policy: Policy, name: str) -> dict[Path, Answer | None]:
    reach = policy.reach(name) if name in policy.users else Reach(())
    return {path: answer(reach, path) for path in PATHS}


def covering(changes: list[AccessChange], name: str, path: Path) -> Iterator[tuple[AccessChange, Path]]:
    """The changes that a path of a user is part of, each with where it begins."""
    for change in changes:
        for part in change.parts if name in change.users else ():
            if part.path.holds(path) and not any(each.holds(path) for each in part.exceptions):
                yield change, part.path


def as_told(changes: list[AccessChange], name: str, path: Path, before: Answer | None) -> Answer | None:
    """What a user has at a path after these changes, as far as their words tell: for new access, not where."""
    rights = before.rights if before else frozenset()
    place = before.place if before else None
    kinds = []
    for change, start in covering(changes, name, path):
        kind, told, everything, _, later = change.delta
        kinds.append(kind)
        if kind is Kind.GAINS:
            assert told
            assert not told & rights
            rights |= told
        elif kind is Kind.LOSES:
            assert everything or told <= rights
            rights = frozenset() if everything else rights - told
        else:
            connection, _, folder = later.replace("{user}", name).partition("/")
            assert place
            place = Place(connection, Path((*Path.parse(folder).segments, *path.segments[len(start.segments) :])))
    assert len(kinds) == len(set(kinds)), "a path is in one part of each kind"
    return Answer(place, rights) if place and rights else Answer(Place("", Path()), rights) if rights else None


@pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_the_difference_is_that_of_all_answers(cases: int) -> None:
    random = Random(27)
    for _ in range(cases):
        old, new = generated(random), generated(random)
        changes = [each for each in difference(old, new, NOW) if isinstance(each, AccessChange)]
        for name in old.users.keys() | new.users.keys():
            before, after = answers(old, name), answers(new, name)
            for path in PATHS:
                told, real = as_told(changes, name, path, before[path]), after[path]
                if before[path]:
                    assert told == real, (name, path)
                else:
                    assert (told.rights if told else None) == (real.rights if real else None), (name, path)


def test_nothing_changes_between_equal_policies() -> None:
    random = Random(27)
    for _ in range(100):
        each = generated(random)
        assert difference(each, each, NOW) == []


def test_users_that_gain_the_same_are_named_together() -> None:
    before: Mounts = {"/hr": ("files/hr", "list")}
    after: Mounts = {"/hr": ("files/hr", "list download")}
    names = ["anna", "bo", "chi"]
    assert words(policy(dict.fromkeys(names, before)), policy(dict.fromkeys(names, after))) == [
        "3 users gain download on /hr (anna, bo, chi)."
    ]
    names = [f"u{number}" for number in range(9)]
    assert words(policy(dict.fromkeys(names, after)), policy(dict.fromkeys(names, before))) == [
        "9 users lose download on /hr (u0, u1, u2, u3, u4 and 4 others)."
    ]


def test_a_lost_mount_is_all_access() -> None:
    old = policy({"bo": {"/x": ("files/x", "list download"), "/y": ("files/y", "list")}})
    assert words(old, policy({"bo": {}})) == ["bo loses all access to /x and /y."]
    assert words(old, policy({})) == ["bo loses all access to /x and /y."]


def test_a_nested_mount_is_an_exception() -> None:
    old = policy({"bo": {"/": ("files/", "list"), "/hr": ("files/hr", "list download")}})
    new = policy({"bo": {"/": ("files/", "list download"), "/hr": ("files/hr", "list download")}})
    assert words(old, new) == ["bo gains download on / (except /hr)."]


def test_a_mount_that_makes_no_difference_is_no_change() -> None:
    old = policy({"bo": {"/": ("files/", "list")}})
    new = policy({"bo": {"/": ("files/", "list"), "/hr": ("files/hr", "list")}})
    assert words(old, new) == []
    hidden = policy({"bo": {"/": ("files/", "list"), "/hr": ("files/hr", "")}})
    assert words(old, hidden) == ["bo loses all access to /hr."]


def test_a_folder_kept_elsewhere() -> None:
    old: Mounts = {"/home": ("local/home/{user}", "list")}
    new: Mounts = {"/home": ("cloud/{user}", "list")}
    assert words(policy({"anna": old, "bo": old}), policy({"anna": new, "bo": new})) == [
        "/home leads to cloud/{user} instead of local/home/{user} for 2 users (anna, bo)."
    ]


def test_the_order_of_groups_is_a_change() -> None:
    read = (["bo"], {"/x": ("files/x", "list")})
    write = (["bo"], {"/x": ("files/x", "list upload")})
    old = policy({"bo": {}}, {"readers": read, "writers": write})
    new = policy({"bo": {}}, {"writers": write, "readers": read})
    assert words(old, new) == ["bo gains upload on /x."]


def user(**values: object) -> UserPolicy:
    return msgspec.structs.replace(UserPolicy("bo", mounts({"/": ("files/", "list")})), **values)


def test_an_account_that_cannot_be_used_has_no_access() -> None:
    usable, disabled = policy({"bo": user()}), policy({"bo": user(disabled=True)})
    assert words(usable, disabled) == ["bo loses all access to /."]
    assert words(disabled, usable) == ["bo gains list on /."]
    expired = policy({"bo": user(limits=Limits(NOW))})
    assert words(usable, expired) == ["bo loses all access to /."]
    assert words(disabled, expired) == []


def test_limits() -> None:
    soon = Limits(NOW + timedelta(days=1), (ip_network("10.0.0.0/8"), ip_network("192.0.2.7")))
    assert words(policy({"bo": user()}), policy({"bo": user(limits=soon)})) == [
        "bo can sign in until 2026-11-20T00:00:00.000Z (before: without end).",
        "bo can sign in only from 10.0.0.0/8 or 192.0.2.7/32 (before: from anywhere).",
    ]
    assert words(policy({}), policy({"bo": user(limits=soon)}))[1:] == [
        "bo can sign in until 2026-11-20T00:00:00.000Z.",
        "bo can sign in only from 10.0.0.0/8 or 192.0.2.7/32.",
    ]


def test_the_strictest_limit_applies() -> None:
    both = policy({"bo": user(limits=Limits(NOW + timedelta(days=2), (ip_network("10.0.0.0/8"),)))}).users
    group = GroupPolicy("staff", (), frozenset({"bo"}), Limits(NOW + timedelta(days=1), (ip_network("10.1.0.0/16"),)))
    assert words(Policy({}, {}, both), Policy({}, {"staff": group}, both)) == [
        "bo can sign in until 2026-11-20T00:00:00.000Z (before: until 2026-11-21T00:00:00.000Z).",
        "bo can sign in only from 10.0.0.0/8, and from 10.1.0.0/16 (before: only from 10.0.0.0/8).",
    ]
