"""`Policy`: connections, groups and users with their mounts, as they are or as they should be."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import cached_property

import msgspec

from portico.model.reach import MountRule, Reach, reach_of, strictest
from portico.store.encrypted_columns import Confidential
from portico.store.reach import Network

APPLY = "apply"
"""The origin of what `portico apply` has created."""


class ConnectionPolicy(Confidential, msgspec.Struct, frozen=True):
    name: str
    kind: str
    options: Mapping[str, str]
    secrets: Mapping[str, str]
    origin: str | None = None

    def place(self, names: Collection[str]) -> dict[str, str]:
        """The options of these names."""
        return {key: value for key, value in {**self.options, **self.secrets}.items() if key in names}


class Limits(msgspec.Struct, frozen=True):
    """Until when, and from where, an account can be used."""

    expires_at: datetime | None = None
    addresses: tuple[Network, ...] = ()
    """Sorted; none means from anywhere."""


class GroupPolicy(msgspec.Struct, frozen=True):
    name: str
    mounts: tuple[MountRule, ...]
    """Sorted by path."""
    members: frozenset[str]
    """The keys of their names."""
    limits: Limits = Limits()
    origin: str | None = None


class UserPolicy(msgspec.Struct, frozen=True):
    name: str
    mounts: tuple[MountRule, ...]
    limits: Limits = Limits()
    disabled: bool = False
    origin: str | None = None


class EffectiveLimits(msgspec.Struct, frozen=True):
    """The strictest of a user's own limits and those of the groups."""

    expires_at: datetime | None
    addresses: frozenset[tuple[Network, ...]]
    """The client's address must be in one range of each."""


class Policy:
    """Groups are in their order. Users and groups are found by the keys of their names."""

    def __init__(
        self,
        connections: Mapping[str, ConnectionPolicy],
        groups: Mapping[str, GroupPolicy],
        users: Mapping[str, UserPolicy],
    ) -> None:
        self.connections, self.groups, self.users = connections, groups, users

    @cached_property
    def _joined(self) -> dict[str, list[GroupPolicy]]:
        joined: dict[str, list[GroupPolicy]] = {}
        for group in self.groups.values():
            for member in group.members:
                joined.setdefault(member, []).append(group)
        return joined

    def groups_of(self, key: str) -> list[GroupPolicy]:
        return self._joined.get(key, [])

    def reach(self, key: str) -> Reach:
        """A user's tree, whether or not the account can be used now."""
        user = self.users[key]
        return reach_of(user.name, user.mounts, [(group.name, group.mounts) for group in self.groups_of(key)])

    def limits(self, key: str) -> EffectiveLimits:
        each = [self.users[key].limits, *(group.limits for group in self.groups_of(key))]
        end, addresses = strictest((limits.expires_at for limits in each), (limits.addresses for limits in each))
        return EffectiveLimits(end, frozenset(addresses))

    def unusable(self, key: str, now: datetime) -> str | None:
        """Why the account can't be used now, as the end of a sentence."""
        if self.users[key].disabled:
            return "is disabled"
        expires_at = self.limits(key).expires_at
        return "has expired" if expires_at and expires_at <= now else None


def sorted_networks(networks: Iterable[Network]) -> tuple[Network, ...]:
    return tuple(sorted(set(networks), key=lambda each: (each.version, int(each.network_address), each.prefixlen)))
