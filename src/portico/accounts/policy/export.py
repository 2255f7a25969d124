"""A policy as the text of a policy file, sorted, and without anything secret."""

import json
import re
from collections.abc import Iterable, Iterator

from portico.accounts.policy.file import STORED
from portico.accounts.policy.policy import ConnectionPolicy, Limits, Policy
from portico.model import timestamps
from portico.model.reach import MountRule
from portico.model.rights import shown
from portico.model.visible_text import visible

_PLAIN = re.compile(r"[^\W\d_][\w./@ +-]*[\w./@+-]|[^\W\d_]|/(?:[\w./@+-][\w./@ +-]*)?(?<! )|\d+(?:\.\d+){3}/\d+")
"""Text that needs no quotes in any context."""
_WORDS_WITH_A_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_INDENT = "  "


def exported(policy: Policy) -> Iterator[str]:
    """The lines of the file."""
    yield "# Applied with 'portico apply'; see 'portico apply --help'."
    if any(each.secrets for each in policy.connections.values()):
        yield f"# {STORED} keeps a secret that the gateway has. Another gateway needs ${{env:NAME}} or ${{file:PATH}} there."
    yield from _section(
        "connections", [line for _, each in sorted(policy.connections.items()) for line in _connection(each)]
    )
    yield from _section("groups", [line for key in policy.groups for line in _group(policy, key)])
    yield from _section("users", [line for key in sorted(policy.users) for line in _user(policy, key)])


def _section(name: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"{name}:"
        yield from (f"{_INDENT}{line}" for line in lines)


def _connection(connection: ConnectionPolicy) -> Iterator[str]:
    yield f"{quoted(connection.name)}:"
    yield f"{_INDENT}kind: {connection.kind}"
    options = {**connection.options, **dict.fromkeys(connection.secrets, STORED)}
    if options:
        yield f"{_INDENT}options:"
        for key, value in sorted(options.items()):
            yield f"{_INDENT * 2}{quoted(key)}: {value if value is STORED else quoted(value)}"


def _group(policy: Policy, key: str) -> Iterator[str]:
    group = policy.groups[key]
    yield f"{quoted(group.name)}:"
    yield f"{_INDENT}members: {_list(policy.users[member].name for member in sorted(group.members))}"
    yield from _common(group.limits, group.mounts)


def _user(policy: Policy, key: str) -> Iterator[str]:
    user = policy.users[key]
    lines = [f"{_INDENT}disabled: true"] if user.disabled else []
    lines += _common(user.limits, user.mounts)
    yield f"{quoted(user.name)}:{'' if lines else ' {}'}"
    yield from lines


def _common(limits: Limits, mounts: Iterable[MountRule]) -> Iterator[str]:
    if limits.expires_at:
        yield f"{_INDENT}expires: {timestamps.from_datetime(limits.expires_at).removesuffix('T00:00:00.000Z')}"
    if limits.addresses:
        yield f"{_INDENT}addresses: {_list(map(str, limits.addresses))}"
    if lines := [_mount(rule) for rule in mounts]:
        yield f"{_INDENT}mounts:"
        yield from (f"{_INDENT * 2}{line}" for line in lines)


def _mount(rule: MountRule) -> str:
    folder = f", folder: {quoted(rule.folder)}" if rule.folder != "/" else ""
    rights = _list(shown(rule.rights))
    return f"{quoted(str(rule.path))}: {{connection: {quoted(rule.connection)}{folder}, rights: {rights}}}"


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, words))}]"


def quoted(text: str) -> str:
    """As a value of YAML, in any context."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS_WITH_A_MEANING and visible(text) == text:
        return text
    literal = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() and visible(each) == each else f"\\U{ord(each):08x}" for each in literal)
