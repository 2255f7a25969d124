"""Policies to test with."""

from collections.abc import Iterable, Mapping
from random import Random

from portico.accounts.policy.policy import GroupPolicy, Limits, Policy, UserPolicy
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import ALL_RIGHTS, parse_rights

Mounts = Mapping[str, tuple[str, str]]
"""By their paths: the place, as `connection/folder`, and rights."""


def mount(path: str, place: str, rights: str = "list") -> MountRule:
    connection, _, folder = place.partition("/")
    return MountRule(Path.parse(path), connection, f"/{folder}", parse_rights(rights))


def mounts(given: Mounts) -> tuple[MountRule, ...]:
    rules = (mount(path, *each) for path, each in given.items())
    return tuple(sorted(rules, key=lambda rule: rule.path.segments))


def policy(
    users: Mapping[str, UserPolicy | Mounts], groups: Mapping[str, tuple[Iterable[str], Mounts]] | None = None
) -> Policy:
    return Policy(
        {},
        {name: GroupPolicy(name, mounts(of), frozenset(members)) for name, (members, of) in (groups or {}).items()},
        {
            name: each if isinstance(each, UserPolicy) else UserPolicy(name, mounts(each), Limits())
            for name, each in users.items()
        },
    )


NAMES = ("a", "hr", "HR")
PLACES = ("one/", "one/a", "one/a/b", "two/", "two/b", "one/home/{user}", "two/{user}")
RIGHTS = sorted(ALL_RIGHTS)


def generated(random: Random) -> Policy:
    """Few names, few places and few rights, so that mounts overlap, and the same is often had in several ways."""
    users = ["anna", "bo", "a"]
    choices = [random.sample(RIGHTS, random.randint(0, 3)) for _ in range(3)]

    def mount_table(group: str = "") -> Mounts:
        places = (*PLACES, "two/groups/{group}") if group else PLACES
        return {
            "/" + "/".join(random.choices(NAMES, k=random.randint(0, 3))): (
                random.choice(places),
                " ".join(random.choice(choices)),
            )
            for _ in range(random.randint(0, 4))
        }

    names = random.sample(["staff", "partners", "hr"], random.randint(0, 3))
    return policy(
        {name: mount_table() for name in random.sample(users, random.randint(1, 3))},
        {name: (random.sample(users, random.randint(0, 3)), mount_table(name)) for name in names},
    )
