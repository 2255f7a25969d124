"""The changes that make a policy match a file."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from portico.accounts.names import name_key
from portico.accounts.passwords import check_password
from portico.accounts.policy.access import AccessChange, LimitChange, difference, listed
from portico.accounts.policy.document import Mistakes, hint
from portico.accounts.policy.file import ConnectionSpec, MountSpec, PolicyFile, Reference, StorageKinds
from portico.accounts.policy.policy import APPLY, ConnectionPolicy, GroupPolicy, Limits, Policy, UserPolicy
from portico.model import timestamps
from portico.model.errors import InvalidRequest
from portico.model.paths import Place
from portico.model.reach import MountRule


class Action(StrEnum):
    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"


class Noun(StrEnum):
    CONNECTION = "connection"
    GROUP = "group"
    USER = "user"


class PlannedChange(NamedTuple):
    noun: Noun
    action: Action
    key: str
    name: str
    details: tuple[str, ...] = ()
    """In words, without any value of an option."""
    fields: tuple[str, ...] = ()
    """Names of what changes, for the audit log."""


class Plan(msgspec.Struct, frozen=True):
    before: Policy
    after: Policy
    changes: tuple[PlannedChange, ...]
    access: tuple[AccessChange | LimitChange, ...]

    @property
    def new_users(self) -> list[str]:
        """The keys of their names."""
        return [each.key for each in self.changes if each.noun is Noun.USER and each.action is Action.ADD]


Resolve = Callable[[Reference], str]
"""The value of a reference; `InvalidRequest` if there is none."""


def make_plan(before: Policy, after: Policy, now: datetime, places: Collection[str] = ()) -> Plan:
    """`places`: the options of a connection that say where the files are."""
    changes = (
        *_changes(Noun.CONNECTION, before.connections, after.connections, _connection_details),
        *_changes(Noun.GROUP, before.groups, after.groups, lambda old, new: _group_details(old, new, before, after)),
        *_order(list(before.groups), list(after.groups), after.groups),
        *_changes(Noun.USER, before.users, after.users, _user_details),
    )
    moved = [
        name
        for name in before.connections.keys() & after.connections.keys()
        if before.connections[name].place(places) != after.connections[name].place(places)
    ]
    return Plan(before, after, changes, tuple(difference(before, after, now, moved)) if changes else ())


Normalize = Callable[[Mapping[str, str]], dict[str, str]]


def desired(
    current: Policy, file: PolicyFile, storage: StorageKinds, resolve: Resolve, *, prune: bool, normal: Normalize = dict
) -> Policy:
    """The policy as the file wants it, with `normal` options. `PolicyMistake` if it names something that
    doesn't exist, or a reference has no value.
    """
    mistakes = Mistakes(file.name)
    connections = _connections(current, file, storage, resolve, normal, mistakes)
    users = {**current.users, **_users(current, file)}
    groups: dict[str, GroupPolicy] = {}
    if prune:
        connections = _kept(connections, file.connections)
        users = _kept(users, file.users)
    for key in _ordered(
        [key for key in current.groups if _is_kept(current.groups[key], key, file.groups, prune=prune)],
        list(file.groups),
    ):
        group = _group(current, key, file, users, mistakes)
        groups[key] = msgspec.structs.replace(group, members=group.members & users.keys())
    after = Policy(connections, groups, users)
    _check_mounts(after, current, file, mistakes)
    mistakes.check()
    return after


def passwords_of(plan: Plan, file: PolicyFile, resolve: Resolve) -> dict[str, str]:
    """The passwords of new users, by the keys of their names. Existing users keep theirs."""
    mistakes = Mistakes(file.name)
    found = {}
    for key in plan.new_users:
        if reference := file.users[key].password:
            try:
                check_password(password := resolve(reference))
                found[key] = password
            except InvalidRequest as error:
                mistakes.add(reference.line, error.detail)
    mistakes.check()
    return found


def new_personal_places(plan: Plan) -> dict[Place, str]:
    """The folders named after users that users get with the plan, with the users' names."""
    found: dict[Place, str] = {}
    if not plan.changes:
        return found
    for key, user in plan.after.users.items():
        had = {mount.place for mount in plan.before.reach(key).mounts} if key in plan.before.users else set()
        given = [(rule, None) for rule in user.mounts]
        joined = [(rule, group.name) for group in plan.after.groups_of(key) for rule in group.mounts]
        for rule, group in (*given, *joined):
            if rule.is_personal and rule.rights and (place := rule.mount_for(user.name, group).place) not in had:
                found[place] = user.name
    return found


def _connections(
    current: Policy, file: PolicyFile, storage: StorageKinds, resolve: Resolve, normal: Normalize, mistakes: Mistakes
) -> dict[str, ConnectionPolicy]:
    found = dict(current.connections)
    for name, spec in file.connections.items():
        old = current.connections.get(name)
        if old and old.kind != spec.kind:
            mistakes.add(
                spec.line,
                f"A connection's kind can't be changed, and {name!r} is {old.kind}; add another connection for {spec.kind}.",
            )
            continue
        if (values := _resolved(spec, old, resolve, mistakes)) is None:
            continue
        try:
            storage.check(spec.kind, values)
        except InvalidRequest as error:
            mistakes.add(spec.line, error.detail)
        plain = normal({key: value for key, value in values.items() if key not in storage.secrets})
        secrets = {key: value for key, value in values.items() if key in storage.secrets}
        found[name] = ConnectionPolicy(name, spec.kind, plain, secrets, old.origin if old else APPLY)
    return found


def _resolved(
    spec: ConnectionSpec, old: ConnectionPolicy | None, resolve: Resolve, mistakes: Mistakes
) -> dict[str, str] | None:
    """The values of all options; None if one is missing."""
    values: dict[str, str] = {}
    for key, value in spec.options.items():
        if isinstance(value, str):
            values[key] = value
        elif value.source != "stored":
            try:
                values[key] = resolve(value)
            except InvalidRequest as error:
                mistakes.add(value.line, error.detail)
        elif old and key in old.secrets:
            values[key] = old.secrets[key]
        else:
            mistakes.add(
                value.line, f"The gateway has no {key!r} for {spec.name!r}; write ${{env:NAME}} or ${{file:PATH}}."
            )
    return values if len(values) == len(spec.options) else None


def _users(current: Policy, file: PolicyFile) -> dict[str, UserPolicy]:
    found = {}
    for key, spec in file.users.items():
        old = current.users.get(key)
        disabled = spec.disabled if spec.disabled is not None else bool(old and old.disabled)
        found[key] = UserPolicy(
            old.name if old else spec.name, _rules(spec.mounts), spec.limits, disabled, old.origin if old else APPLY
        )
    return found


def _group(
    current: Policy, key: str, file: PolicyFile, users: Mapping[str, UserPolicy], mistakes: Mistakes
) -> GroupPolicy:
    old, spec = current.groups.get(key), file.groups.get(key)
    if spec is None:
        assert old
        return old
    members = set(old.members if old else ())
    if spec.members is not None:
        members.clear()
        for name, line in spec.members.items():
            if (member := name_key(name)) in users:
                members.add(member)
            elif member in current.users:
                mistakes.add(line, f"--prune would remove the user {name!r}, who is not in this file; add the user.")
            else:
                known = [each.name for each in users.values()]
                mistakes.add(line, f"There is no user {name[:64]!r}{hint(name, known, listing=False)}")
    return GroupPolicy(
        old.name if old else spec.name,
        _rules(spec.mounts),
        frozenset(members),
        spec.limits,
        old.origin if old else APPLY,
    )


def _rules(specs: Iterable[MountSpec]) -> tuple[MountRule, ...]:
    return tuple(each.rule for each in specs)


def _is_kept(entry: Any, key: str, named: Collection[str], *, prune: bool) -> bool:
    return key in named or not prune or entry.origin != APPLY


def _kept(entries: dict[str, Any], named: Collection[str]) -> dict[str, Any]:
    return {key: entry for key, entry in entries.items() if _is_kept(entry, key, named, prune=True)}


def _ordered(current: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The groups of the file in its order; others stay where they are, and new ones follow the one before them."""
    places = iter([key for key in wanted if key in current])
    order = [next(places) if key in wanted else key for key in current]
    for number, key in enumerate(wanted):
        if key not in order:
            after = order.index(wanted[number - 1]) + 1 if number else None
            before = next((order.index(each) for each in wanted[number + 1 :] if each in order), len(order))
            order.insert(before if after is None else after, key)
    return order


def _check_mounts(after: Policy, current: Policy, file: PolicyFile, mistakes: Mistakes) -> None:
    mounts = [mount for group in file.groups.values() for mount in group.mounts]
    mounts += [mount for user in file.users.values() for mount in user.mounts]
    for mount in mounts:
        name = mount.rule.connection
        if name in after.connections:
            continue
        if name in current.connections:
            mistakes.add(
                mount.line,
                f"--prune would remove the connection {name!r}, which is not in this file; add the connection.",
            )
        else:
            mistakes.add(
                mount.line,
                f"There is no connection {name[:64]!r}{hint(name, sorted(after.connections), listing=False)}",
            )
    others = [(f"@{each.name}", each.mounts) for key, each in after.groups.items() if key not in file.groups]
    others += [(each.name, each.mounts) for key, each in after.users.items() if key not in file.users]
    for name in sorted(current.connections.keys() - after.connections.keys()):
        if owners := [owner for owner, rules in others if any(rule.connection == name for rule in rules)]:
            mistakes.add(
                1,
                f"The connection {name!r} is still used by {listed(owners[:5])}; keep it in the file, or change their mounts.",
            )


def _changes(
    noun: Noun, old: Mapping[str, Any], new: Mapping[str, Any], details: Callable[[Any, Any], dict[str, str]]
) -> Iterator[PlannedChange]:
    for key in sorted(new.keys() - old.keys()):
        words = details(None, new[key])
        yield PlannedChange(noun, Action.ADD, key, new[key].name, tuple(words.values()))
    for key in sorted(old.keys() & new.keys()):
        if words := details(old[key], new[key]):
            yield PlannedChange(noun, Action.CHANGE, key, new[key].name, tuple(words.values()), tuple(words))
    for key in sorted(old.keys() - new.keys()):
        yield PlannedChange(noun, Action.REMOVE, key, old[key].name)


def _order(old: list[str], new: list[str], groups: Mapping[str, GroupPolicy]) -> Iterator[PlannedChange]:
    stayed = set(old) & set(new)
    if [key for key in old if key in stayed] != [key for key in new if key in stayed]:
        words = f"order: {', '.join(groups[key].name for key in new)}"
        yield PlannedChange(Noun.GROUP, Action.CHANGE, "", "all groups", (words,), ("order",))


def _connection_details(old: ConnectionPolicy | None, new: ConnectionPolicy) -> dict[str, str]:
    if old is None:
        return {"kind": new.kind}
    before, after = {**old.options, **old.secrets}, {**new.options, **new.secrets}
    found = {}
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            found[key] = f"{key} {'added' if key not in before else 'removed' if key not in after else 'changed'}"
    return found


def _group_details(old: GroupPolicy | None, new: GroupPolicy, before: Policy, after: Policy) -> dict[str, str]:
    found = _mount_details(old.mounts if old else (), new.mounts)
    former = old.members if old else frozenset()
    names = {
        **{key: each.name for key, each in before.users.items()},
        **{key: each.name for key, each in after.users.items()},
    }
    words = [f"+{names[key]}" for key in sorted(new.members - former)]
    words += [f"-{names[key]}" for key in sorted(former - new.members)]
    if words:
        found["members"] = f"members: {', '.join(words)}"
    return found | _limit_details(old.limits if old else Limits(), new.limits)


def _user_details(old: UserPolicy | None, new: UserPolicy) -> dict[str, str]:
    found = _mount_details(old.mounts if old else (), new.mounts)
    found |= _limit_details(old.limits if old else Limits(), new.limits)
    if new.disabled != bool(old and old.disabled):
        found["disabled"] = "disabled" if new.disabled else "enabled"
    return found


def _mount_details(old: Iterable[MountRule], new: Iterable[MountRule]) -> dict[str, str]:
    before, after = {rule.path: rule for rule in old}, {rule.path: rule for rule in new}
    words = [f"+{path}" for path in after if path not in before]
    words += [f"-{path}" for path in before if path not in after]
    words += [f"~{path}" for path in after if path in before and before[path] != after[path]]
    return {"mounts": f"mounts: {', '.join(words)}"} if words else {}


def _limit_details(old: Limits, new: Limits) -> dict[str, str]:
    found = {}
    if old.expires_at != new.expires_at:
        found["expires"] = f"expires: {timestamps.from_datetime(new.expires_at) if new.expires_at else 'never'}"
    if old.addresses != new.addresses:
        found["addresses"] = f"addresses: {', '.join(map(str, new.addresses)) or 'any'}"
    return found
