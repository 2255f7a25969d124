"""The policy file: its YAML, read into connections, groups, users and tests."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from portico.accounts.limits import MAX_RANGES, parse_network
from portico.accounts.mounts import checked_rule
from portico.accounts.names import check_name, name_key
from portico.accounts.policy.assertions import Assertion, parse_assertion
from portico.accounts.policy.document import Mistakes, Node, hint, parse
from portico.accounts.policy.policy import Limits, sorted_networks
from portico.model import timestamps
from portico.model.errors import InvalidPath, InvalidRequest, PorticoError
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import Right, held
from portico.store.mounts import MAX_MOUNTS
from portico.store.reach import Network

_KEYS = ("connections", "groups", "users", "tests")
_OF_CONNECTION = ("kind", "options")
_OF_GROUP = ("members", "mounts", "expires", "addresses")
_OF_USER = ("mounts", "expires", "addresses", "disabled", "password")
_OF_MOUNT = ("connection", "folder", "rights")
_REFERENCE = re.compile(r"\$\{(?:(stored)|(env):([A-Za-z_][A-Za-z0-9_]*)|(file):([^{}\x00]+))\}")
STORED = "${stored}"


class StorageKind(Protocol):
    @property
    def required(self) -> Collection[str]: ...
    @property
    def options(self) -> Collection[str]: ...


class StorageKinds(NamedTuple):
    """The kinds of storage and their options, checked as by `portico connection add`."""

    kinds: Mapping[str, StorageKind]
    secrets: Collection[str]
    paths: Collection[str]
    """Options that name a file or folder."""
    places: Collection[str]
    """Options that say where the files are."""
    check: Callable[[str, Mapping[str, str]], None]


class Reference(NamedTuple):
    """`${env:NAME}`, `${file:PATH}`, or `${stored}`: the secret that the gateway has already."""

    source: str
    name: str
    line: int


class MountSpec(NamedTuple):
    rule: MountRule
    line: int


class ConnectionSpec(msgspec.Struct, frozen=True):
    name: str
    line: int
    kind: str
    options: Mapping[str, str | Reference]
    lines: Mapping[str, int]
    """Of the options."""


class GroupSpec(msgspec.Struct, frozen=True):
    name: str
    line: int
    mounts: tuple[MountSpec, ...]
    members: Mapping[str, int] | None
    """Names with their lines; None if the file leaves the members to others."""
    limits: Limits


class UserSpec(msgspec.Struct, frozen=True):
    name: str
    line: int
    mounts: tuple[MountSpec, ...]
    limits: Limits
    disabled: bool | None
    password: Reference | None


Spec = TypeVar("Spec", GroupSpec, UserSpec)


class PolicyFile(msgspec.Struct, frozen=True):
    """Users and groups by the keys of their names, groups in their order."""

    name: str
    connections: Mapping[str, ConnectionSpec]
    groups: Mapping[str, GroupSpec]
    users: Mapping[str, UserSpec]
    assertions: tuple[Assertion, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.connections or self.groups or self.users)


def read_policy(text: str, file: str, storage: StorageKinds) -> PolicyFile:
    """`PolicyMistake` with all mistakes that can be seen in the file alone."""
    mistakes = Mistakes(file)
    root = mistakes.mapping(parse(text, mistakes), "The file", _KEYS)
    reader = _Reader(mistakes, storage)
    found = PolicyFile(
        file,
        reader.connections(root.get("connections")),
        reader.groups(root.get("groups")),
        reader.users(root.get("users")),
        tuple(reader.assertions(root.get("tests"))),
    )
    mistakes.check()
    return found


class _Reader:
    def __init__(self, mistakes: Mistakes, storage: StorageKinds) -> None:
        self._mistakes = mistakes
        self._storage = storage

    def connections(self, node: Node | None) -> dict[str, ConnectionSpec]:
        found: dict[str, ConnectionSpec] = {}
        for given, each in self._mistakes.mapping(node, "'connections'").items():
            name = self._name(given, "connection", each.key_line)
            if name and (spec := self._connection(name, each)):
                found[name] = spec
        return found

    def _connection(self, name: str, node: Node) -> ConnectionSpec | None:
        what = f"The connection {name!r}"
        fields = self._mapping(node, what, _OF_CONNECTION, "kind")
        kind = self._mistakes.text(fields.get("kind"), "'kind'")
        if kind is None:
            return None
        if kind not in self._storage.kinds:
            self._mistakes.add(
                fields["kind"].line, f"{kind[:64]!r} is not a kind of storage{hint(kind, sorted(self._storage.kinds))}"
            )
            return None
        known = self._storage.kinds[kind]
        options: dict[str, str | Reference] = {}
        nodes = self._mistakes.mapping(fields.get("options"), "'options'")
        for key, each in nodes.items():
            if key not in known.options:
                self._mistakes.add(
                    each.key_line, f"The kind {kind!r} has no option {key[:64]!r}{hint(key, sorted(known.options))}"
                )
            elif (value := self._option(key, each)) is not None:
                options[key] = value
        for key in sorted(known.required):
            if key not in nodes:
                self._mistakes.add(node.key_line, f"{what} needs the option {key!r}.")
        return ConnectionSpec(name, node.key_line, kind, options, {key: each.line for key, each in nodes.items()})

    def _option(self, key: str, node: Node) -> str | Reference | None:
        text = self._mistakes.text(node, f"{key!r}")
        if text is None:
            return None
        if key in self._storage.secrets:
            return self._reference(text, f"{key!r} is a secret, which can't be in this file", node.line, stored=True)
        if text.startswith("${"):
            return self._reference(text, f"The value of {key!r} is not a valid reference", node.line)
        if not text:
            self._mistakes.add(node.line, f"{key!r} has no value.")
        elif key in self._storage.paths and not os.path.isabs(text):
            self._mistakes.add(node.line, f"{key!r} must be an absolute path.")
        return os.path.normpath(text) if key in self._storage.paths else text

    def _reference(self, text: str, problem: str, line: int, *, stored: bool = False) -> Reference | None:
        """The text is not quoted in the error: it may be a secret."""
        if (found := _REFERENCE.fullmatch(text)) and (stored or not found[1]):
            return Reference(found[1] or found[2] or found[4], found[3] or found[5] or "", line)
        or_stored = f", or {STORED} to keep the gateway's" if stored else ""
        self._mistakes.add(line, f"{problem}; write ${{env:NAME}} or ${{file:PATH}}{or_stored}.")
        return None

    def groups(self, node: Node | None) -> dict[str, GroupSpec]:
        found: dict[str, GroupSpec] = {}
        for given, each in self._mistakes.mapping(node, "'groups'").items():
            if not (name := self._name(given, "group", each.key_line)):
                continue
            fields = self._mapping(each, f"The group {name!r}", _OF_GROUP)
            members = {
                text: item.line
                for item in self._mistakes.sequence(fields.get("members"), "'members'")
                if (text := self._mistakes.text(item, "A member"))
            }
            spec = GroupSpec(
                name,
                each.key_line,
                self._mounts(fields.get("mounts"), "someone", name),
                members if "members" in fields else None,
                self._limits(fields),
            )
            self._add(found, spec, "group")
        return found

    def users(self, node: Node | None) -> dict[str, UserSpec]:
        found: dict[str, UserSpec] = {}
        for given, each in self._mistakes.mapping(node, "'users'").items():
            if not (name := self._name(given, "user", each.key_line)):
                continue
            fields = self._mapping(each, f"The user {name!r}", _OF_USER)
            password = None
            if (text := self._mistakes.text(fields.get("password"), "'password'")) is not None:
                problem = "A password can't be in this file"
                password = self._reference(text, problem, fields["password"].line)
            spec = UserSpec(
                name,
                each.key_line,
                self._mounts(fields.get("mounts"), name),
                self._limits(fields),
                self._mistakes.flag(fields.get("disabled"), "'disabled'"),
                password,
            )
            self._add(found, spec, "user")
        return found

    def _add(self, found: dict[str, Spec], spec: Spec, noun: str) -> None:
        earlier = found.setdefault(name_key(spec.name), spec)
        if earlier is not spec:
            self._mistakes.add(
                spec.line,
                f"{spec.name!r} is the same {noun} as {earlier.name!r} on line {earlier.line}; keep one of them.",
            )

    def _mounts(self, node: Node | None, user: str, group: str | None = None) -> tuple[MountSpec, ...]:
        found: dict[Path, MountSpec] = {}
        for text, each in self._mistakes.mapping(node, "'mounts'").items():
            path = self._path(text, "The mount's path", each.key_line)
            fields = self._mapping(each, f"The mount {text[:64]!r}", _OF_MOUNT, "connection", "rights")
            connection = self._mistakes.text(fields.get("connection"), "'connection'")
            folder = self._mistakes.text(fields.get("folder", Node(each.line, "/")), "'folder'")
            rights = self._rights(fields.get("rights"))
            if path is None or connection is None or folder is None:
                continue
            try:
                rule = checked_rule(MountRule(path, connection, folder, rights))
                rule.mount_for(user, group)
            except PorticoError as error:
                self._mistakes.add(fields.get("folder", each).line, error.detail)
                continue
            if path in found:
                self._mistakes.add(
                    each.key_line, f"{str(path)!r} is already on line {found[path].line}; remove one of them."
                )
            found[path] = MountSpec(rule, each.key_line)
        if node and len(found) > MAX_MOUNTS:
            self._mistakes.add(node.key_line, f"There can be at most {MAX_MOUNTS} mounts of a user or a group.")
        return tuple(found[path] for path in sorted(found, key=lambda path: path.segments))

    def _rights(self, node: Node | None) -> frozenset[Right]:
        rights = []
        if node and node.value is None:
            self._mistakes.add(node.line, "'rights' has no value; write [] to hide the folder.")
        for each in self._mistakes.sequence(node, "'rights'"):
            word = self._mistakes.text(each, "A right")
            if word in list(Right):
                rights.append(Right(word))
            elif word is not None:
                self._mistakes.add(each.line, f"{word[:64]!r} is not a right{hint(word, list(Right))}")
        return held(rights)

    def _limits(self, fields: Mapping[str, Node]) -> Limits:
        networks: list[Network] = []
        for each in self._mistakes.sequence(fields.get("addresses"), "'addresses'"):
            if (text := self._mistakes.text(each, "An address")) is not None:
                try:
                    networks.append(parse_network(text))
                except InvalidRequest as error:
                    self._mistakes.add(each.line, error.detail)
        if len(networks) > MAX_RANGES:
            self._mistakes.add(
                fields["addresses"].line, f"There can be at most {MAX_RANGES} address ranges; use wider ones."
            )
        return Limits(self._time(fields.get("expires")), sorted_networks(networks))

    def _time(self, node: Node | None) -> datetime | None:
        text = self._mistakes.text(node, "'expires'")
        if node is None or text is None:
            return None
        try:
            moment = timestamps.parse(text)
        except ValueError:
            self._mistakes.add(
                node.line, f"{text[:64]!r} is not a valid time; use one like 2027-01-31 or 2027-01-31T18:00:00Z."
            )
            return None
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def assertions(self, node: Node | None) -> Iterable[Assertion]:
        for each in self._mistakes.sequence(node, "'tests'"):
            if (text := self._mistakes.text(each, "A test")) is not None:
                try:
                    yield parse_assertion(text, each.line)
                except InvalidRequest as error:
                    self._mistakes.add(each.line, error.detail)

    def _mapping(self, node: Node, what: str, known: tuple[str, ...], *required: str) -> dict[str, Node]:
        before = len(self._mistakes.found)
        fields = self._mistakes.mapping(node, what, known)
        for key in required:
            # A misspelt key has been reported already.
            if key not in fields and len(self._mistakes.found) == before:
                self._mistakes.add(node.key_line, f"{what} has no {key!r}; add it.")
        return fields

    def _name(self, text: str, noun: str, line: int) -> str | None:
        try:
            return check_name(text, noun)
        except InvalidRequest as error:
            self._mistakes.add(line, f"{text[:64]!r} is not a valid name. {error.detail}")
            return None

    def _path(self, text: str, what: str, line: int) -> Path | None:
        if not text.startswith("/"):
            self._mistakes.add(line, f"{what} must begin with a slash: {f'/{text}'[:64]!r}.")
            return None
        try:
            return Path.parse(text)
        except InvalidPath as error:
            self._mistakes.add(line, error.detail)
            return None
