"""The tests of a policy file, such as `anna can download /hr/plan.pdf` and `partners cannot reach /hr`."""

import re
from collections.abc import Iterator
from datetime import datetime

import msgspec

from portico.accounts.names import name_key
from portico.accounts.policy.access import listed
from portico.accounts.policy.document import Mistakes, hint
from portico.accounts.policy.policy import GroupPolicy, Policy
from portico.model.errors import InvalidPath, InvalidRequest
from portico.model.paths import Path
from portico.model.reach import Mount, Reach, reach_of
from portico.model.rights import Right, held, shown

_FORM = re.compile(r"(\S+)\s+(can|cannot|can't)\s+(\S+)\s+(?:(?:to|on|in|from|at)\s+)?(/.*)")
_REACH = "reach"
_EXAMPLE = "anna can download /hr/plan.pdf"


class Assertion(msgspec.Struct, frozen=True):
    line: int
    text: str
    subject: str
    """A user, or a group, which stands for each of its members; with an @, a group."""
    allowed: bool
    rights: frozenset[Right] | None
    """All of them; None: any at all."""
    path: Path

    def failures(self, policy: Policy, now: datetime) -> Iterator[str]:
        """Why it does not hold: a sentence for each user. `InvalidRequest` if there is no such user or group."""
        key = name_key(self.subject.removeprefix("@"))
        group = policy.groups.get(key)
        users = [key] if key in policy.users and not self.subject.startswith("@") else []
        if group:
            users += sorted(group.members - set(users))
        elif not users:
            known = [each.name for each in policy.users.values()] + [each.name for each in policy.groups.values()]
            raise InvalidRequest(
                f"There is no user or group {self.subject[:64]!r}{hint(self.subject, known, listing=False)}"
            )
        for user in users:
            why = policy.unusable(user, now)
            if failure := self._failure(policy.users[user].name, policy.reach(user), why):
                yield failure
        if group and not group.members and (failure := self._failure("A new member", _alone(group), None)):
            yield failure

    def _failure(self, user: str, reach: Reach, unusable: str | None) -> str | None:
        if self.allowed:
            return self._refusal(user, reach, unusable)
        return None if unusable else self._permission(user, reach)

    def _refusal(self, user: str, reach: Reach, unusable: str | None) -> str | None:
        """Why the user can't do at the path what the test says; None if the user can."""
        if unusable:
            return f"{user} {unusable}."
        mount = reach.at(self.path)
        if mount is None:
            if self.rights in (None, {Right.LIST}) and reach.is_virtual(self.path):
                return None
            hiding = reach.deepest(self.path)
            hidden = f"{_source(hiding)} hides it" if hiding else "no mount leads there"
            return f"{user} can't reach {self.path}: {hidden}."
        if missing := (self.rights or frozenset()) - mount.rights:
            return f"{user} can't {listed(shown(missing))} there: {_source(mount)} gives only {listed(shown(mount.rights))}."
        return None

    def _permission(self, user: str, reach: Reach) -> str | None:
        """Which mount lets the user do what the test rules out, at the path or below it, in any spelling of it."""
        other = reach.spelled(self.path)
        for path in (self.path, other[0]) if other else (self.path,):
            mount = reach.at(path)
            for each in ([mount] if mount else []) + list(reach.below(path)):
                given = each.rights if self.rights is None else each.rights & self.rights
                if given:
                    verb = _REACH if self.rights is None else listed(shown(given))
                    where = path if each is mount else each.path
                    return f"{user} can {verb} {where}: {_source(each)} gives {listed(shown(each.rights))}."
        return None


def _alone(group: GroupPolicy) -> Reach:
    """The tree of a member who has no other mounts."""
    return reach_of("member", (), [(group.name, group.mounts)])


def _source(mount: Mount) -> str:
    owner = f"the group '{mount.group}'" if mount.group else "the user's own"
    return f"the mount {mount.path} of {owner}" if mount.group else f"{owner} mount {mount.path}"


def parse_assertion(text: str, line: int) -> Assertion:
    form = _FORM.fullmatch(text.strip())
    if not form:
        raise InvalidRequest(f"A test must look like '{_EXAMPLE}' or 'partners cannot reach /hr'.")
    subject, verb, word, path = form.groups()
    if word not in (*Right, _REACH):
        raise InvalidRequest(f"{word[:64]!r} can't be tested{hint(word, [*Right, _REACH])}")
    try:
        parsed = Path.parse(path)
    except InvalidPath as error:
        raise InvalidRequest(error.detail) from None
    rights = None if word == _REACH else held([Right(word)])
    return Assertion(line, text.strip(), subject, verb == "can", rights, parsed)


def check_assertions(assertions: tuple[Assertion, ...], policy: Policy, file: str, now: datetime) -> None:
    """`PolicyMistake` with the line of each test that fails, and why."""
    mistakes = Mistakes(file)
    for each in assertions:
        try:
            for failure in each.failures(policy, now):
                mistakes.add(each.line, f"The test '{each.text}' fails. {failure}")
        except InvalidRequest as error:
            mistakes.add(each.line, error.detail)
    mistakes.check()
