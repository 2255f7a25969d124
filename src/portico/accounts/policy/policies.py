"""The policy of a gateway: read from the database, and changed as a plan says, all of it or nothing."""

import secrets
from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_network
from typing import Any

import msgspec

from portico.accounts.connections import Connection, Connections
from portico.accounts.credentials import digest_of
from portico.accounts.groups import named
from portico.accounts.limits import limits
from portico.accounts.policy.plan import Action, Noun, Plan
from portico.accounts.policy.policy import (
    APPLY,
    ConnectionPolicy,
    GroupPolicy,
    Limits,
    Policy,
    UserPolicy,
    sorted_networks,
)
from portico.accounts.throttle import name_digest
from portico.accounts.users import INVITATION_LIFETIME
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.runtime import clock
from portico.store.connections import add_connection, remove_connection, replace_connection
from portico.store.database import Database
from portico.store.encrypted_columns import Confidential
from portico.store.groups import add_group, delete_group, join_group, leave_group, order_groups, set_group
from portico.store.mounts import Owner, add_mount, remove_mount, set_mount
from portico.store.policy import LinkedRecord, PolicyRecords, change_records, keys_and_links, read_records
from portico.store.reach import ReachChange
from portico.store.users import NewUser, add_users, remove_user, set_user


class NewInvitation(Confidential, msgspec.Struct, frozen=True):
    name: str
    token: str
    expires_at: datetime


class Known(msgspec.Struct, frozen=True):
    """A policy, and the rows that it was read from."""

    policy: Policy
    records: PolicyRecords


async def current_policy(database: Database, connections: Connections) -> Known:
    records = await read_records(database)
    opened = {}
    for each in map(connections.opened, records.connections):
        opened[each.name] = ConnectionPolicy(each.name, each.kind, each.options, each.secrets, each.origin)
    groups = {
        each.key: GroupPolicy(
            each.name, each.mounts, each.members, _limits(each.expires_at, each.addresses), each.origin
        )
        for each in records.groups
    }
    users = {
        each.key: UserPolicy(
            each.name, each.mounts, _limits(each.expires_at, each.addresses), each.disabled, each.origin
        )
        for each in records.users
    }
    return Known(Policy(opened, groups, users), records)


async def ending(database: Database, plan: Plan) -> dict[tuple[Noun, str], tuple[list[str], list[str]]]:
    """The names of the API keys, and the paths of the share links, that end with what the plan removes."""
    removed = {(each.noun, each.key) for each in plan.changes if each.action is Action.REMOVE}
    found: dict[tuple[Noun, str], tuple[list[str], list[str]]] = {}
    for each in await keys_and_links(database) if removed else ():
        for owner in _owners(each):
            if owner in removed:
                keys, links = found.setdefault(owner, ([], []))
                (links if each.connection else keys).append(each.what)
    return found


async def apply_plan(
    database: Database, connections: Connections, known: Known, plan: Plan, hashes: Mapping[str, str]
) -> list[NewInvitation]:
    """Carry out the plan, all of it or nothing. New users get an invitation, unless they have a password hash.

    `Changed` if the rows are no longer those that are known.
    """
    now = clock.to_datetime(database.now())
    invitations = {
        key: NewInvitation(plan.after.users[key].name, secrets.token_urlsafe(32), now + INVITATION_LIFETIME)
        for key in plan.new_users
        if key not in hashes and not plan.after.unusable(key, now)
    }

    async def work(change: ReachChange) -> None:
        await _Change(database, connections, known, plan, change).make(hashes, invitations)

    with connections.one_key():
        await change_records(database, known.records, work)
    return list(invitations.values())


def _limits(expires_at: int | None, addresses: str) -> Limits:
    ends = None if expires_at is None else clock.to_datetime(expires_at)
    return Limits(ends, sorted_networks(map(ip_network, addresses.split())))


def _owners(record: LinkedRecord) -> list[tuple[Noun, str]]:
    owners = [(Noun.USER, record.user)]
    return [*owners, (Noun.CONNECTION, record.connection)] if record.connection else owners


class _Change:
    """One plan, within a transaction."""

    def __init__(
        self, database: Database, connections: Connections, known: Known, plan: Plan, change: ReachChange
    ) -> None:
        self._database = database
        self._connections = connections
        self._revisions = {each.name: each.revision for each in known.records.connections}
        self._before, self._after = plan.before, plan.after
        self._changes = plan.changes
        self._change = change

    async def make(self, hashes: Mapping[str, str], invitations: Mapping[str, NewInvitation]) -> None:
        """Add referenced objects first, and remove them last."""
        before, after, change = self._before, self._after, self._change
        for name in self._keys(Noun.CONNECTION, Action.ADD, Action.CHANGE):
            await self._store_connection(name)
        new = self._keys(Noun.USER, Action.ADD)
        await add_users(change, [self._new_user(key, hashes.get(key, ""), invitations.get(key)) for key in new])
        for key in self._keys(Noun.GROUP, Action.ADD):
            group = after.groups[key]
            await add_group(change, {**named(group.name), **_columns(group.limits), "origin": group.origin})
            await self._set_group(key, GroupPolicy(group.name, (), frozenset(), group.limits), group)
        for key in self._keys(Noun.GROUP, Action.CHANGE):
            await self._set_group(key, before.groups[key], after.groups[key])
        for key in self._keys(Noun.USER, Action.CHANGE):
            await self._set_user(key)
        for key in self._keys(Noun.USER, Action.REMOVE):
            await remove_user(change.transaction, key, name_digest(before.users[key].name))
        for key in self._keys(Noun.GROUP, Action.REMOVE):
            await delete_group(change, key)
        if any(each.noun is Noun.GROUP for each in self._changes):
            await order_groups(change, list(after.groups))
        for name in self._keys(Noun.CONNECTION, Action.REMOVE):
            await remove_connection(change.transaction, name)

    def _keys(self, noun: Noun, *actions: Action) -> list[str]:
        return [each.key for each in self._changes if each.noun is noun and each.action in actions and each.key]

    async def _store_connection(self, name: str) -> None:
        wanted, old = self._after.connections[name], self._revisions.get(name)
        revision = self._database.now() if old is None else max(self._database.now(), old + 1)
        connection = Connection(
            name, wanted.kind, dict(wanted.options), dict(wanted.secrets), revision, origin=wanted.origin
        )
        store = add_connection if old is None else replace_connection
        await store(self._change.transaction, *self._connections.sealed(connection), self._database.dialect)

    def _new_user(self, key: str, password_hash: str, invitation: NewInvitation | None) -> NewUser:
        user, now = self._after.users[key], self._database.now()
        values = {
            "name": user.name,
            "name_key": key,
            "disabled": user.disabled,
            "created_at": now,
            "password_changed_at": now,
            "password_hash": password_hash,
            **_columns(user.limits),
            "origin": user.origin,
        }
        row = None
        if invitation:
            row = {"digest": digest_of(invitation.token), "expires_at": clock.from_datetime(invitation.expires_at)}
        return NewUser(values, user.mounts, row)

    async def _set_user(self, key: str) -> None:
        old, new = self._before.users[key], self._after.users[key]
        values = {**_columns(new.limits), "disabled": new.disabled}
        await set_user(self._change, key, values, sign_out=new.disabled)
        await self._set_mounts(Owner(new.name, key), old.mounts, new.mounts)

    async def _set_group(self, key: str, old: GroupPolicy, new: GroupPolicy) -> None:
        change = self._change
        if old.limits != new.limits:
            await set_group(change, key, _columns(new.limits))
        if left := old.members - new.members:
            await leave_group(change, key, left)
        if joined := new.members - old.members:
            await join_group(change, key, joined)
        await self._set_mounts(Owner(new.name, key, is_group=True), old.mounts, new.mounts)

    async def _set_mounts(self, owner: Owner, old: tuple[MountRule, ...], new: tuple[MountRule, ...]) -> None:
        before: dict[Path, MountRule] = {rule.path: rule for rule in old}
        after: dict[Path, MountRule] = {rule.path: rule for rule in new}
        for path in before.keys() - after.keys():
            await remove_mount(self._change, owner, path)
        for path, rule in after.items():
            if path not in before:
                await add_mount(self._change, owner, rule, APPLY)
            elif before[path] != rule:
                await set_mount(self._change, owner, path, rule)


def _columns(given: Limits) -> dict[str, Any]:
    return limits(given.expires_at, given.addresses)
