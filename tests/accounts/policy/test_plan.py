from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import msgspec
import pytest

from portico.accounts.policy.document import PolicyMistake
from portico.accounts.policy.export import exported
from portico.accounts.policy.plan import Plan, desired, make_plan
from portico.accounts.policy.policy import APPLY, ConnectionPolicy, GroupPolicy, Policy
from portico.accounts.policy.references import References

from .policies import mounts, policy
from .test_file import STORAGE, read

NOW = datetime(2026, 11, 19, tzinfo=UTC)
FILES = ConnectionPolicy("files", "local", {"folder": "/srv/files"}, {})
CLOUD = ConnectionPolicy("cloud", "s3", {"bucket": "b"}, {"secret-access-key": "top secret"})


def wanted(current: Policy, text: str, *, prune: bool = False, **environment: str) -> Policy:
    return desired(current, read(text), STORAGE, References(Path("/"), environment).resolve, prune=prune)


def plan(current: Policy, text: str, *, prune: bool = False, **environment: str) -> Plan:
    return make_plan(current, wanted(current, text, prune=prune, **environment), NOW, STORAGE.places)


def lines(plan: Plan) -> list[str]:
    return [f"{each.action} {each.noun} {each.name}: {'; '.join(each.details)}".rstrip(": ") for each in plan.changes]


def company(origin: str | None = None) -> Policy:
    made = policy(
        {"anna": {"/": ("files/", "list")}, "bo": {}},
        {"staff": (["anna", "bo"], {"/s": ("files/s", "list")}), "partners": ((), {})},
    )
    return Policy(
        {each.name: msgspec.structs.replace(each, origin=origin) for each in (FILES, CLOUD)},
        {key: msgspec.structs.replace(each, origin=origin) for key, each in made.groups.items()},
        {key: msgspec.structs.replace(each, origin=origin) for key, each in made.users.items()},
    )


def refused(current: Policy, text: str, *, prune: bool = False, **environment: str) -> list[str]:
    with pytest.raises(PolicyMistake) as caught:
        wanted(current, text, prune=prune, **environment)
    return caught.value.detail.splitlines()


def test_what_was_exported_changes_nothing() -> None:
    assert plan(company(), "\n".join(exported(company()))).changes == ()
    assert plan(company(APPLY), "\n".join(exported(company())), prune=True).changes == ()


def test_what_is_not_mentioned_stays() -> None:
    found = plan(company(), "users: {anna: {}}")
    assert lines(found) == ["change user anna: mounts: -/"]
    assert [str(each) for each in found.access] == ["anna loses all access to / (except /s)."]
    assert found.after.users["bo"] == company().users["bo"]


def test_pruning_removes_only_what_apply_created() -> None:
    text = "groups: {staff: {members: [bo]}}\nusers: {bo: {}}"
    assert not any(line.startswith("remove") for line in lines(plan(company(), text, prune=True)))
    assert lines(plan(company(APPLY), text, prune=True)) == [
        "remove connection cloud",
        "remove connection files",
        "change group staff: mounts: -/s; members: -anna",
        "remove group partners",
        "remove user anna",
    ]


def test_a_connection_in_use_cannot_be_removed() -> None:
    current = Policy(company(APPLY).connections, {}, company().users)
    assert refused(current, "groups: {g: {}}", prune=True) == [
        "company.yaml:1: The connection 'files' is still used by anna; keep it in the file, or change their mounts."
    ]


def test_members_are_left_to_others_without_the_key() -> None:
    mount = "mounts: {/s: {connection: files, folder: /s, rights: [list]}}"
    assert lines(plan(company(), f"groups: {{staff: {{{mount}}}}}")) == []
    assert lines(plan(company(), f"groups: {{staff: {{{mount}, members: []}}}}")) == [
        "change group staff: members: -anna, -bo"
    ]
    assert lines(plan(company(), f"groups: {{staff: {{{mount}, members: }}}}")) == [
        "change group staff: members: -anna, -bo"
    ]


def test_disabled_stays_without_the_key() -> None:
    users = {**company().users, "bo": msgspec.structs.replace(company().users["bo"], disabled=True)}
    current = Policy(company().connections, company().groups, users)
    assert lines(plan(current, "users: {bo: {}}")) == []
    assert lines(plan(current, "users: {bo: {disabled: false}}")) == ["change user bo: enabled"]
    assert lines(plan(company(), "users: {bo: {disabled: true}}")) == ["change user bo: disabled"]


def test_limits() -> None:
    text = "users: {bo: {expires: 2027-01-31, addresses: [10.0.0.0/8]}}"
    found = plan(company(), text)
    assert lines(found) == ["change user bo: expires: 2027-01-31T00:00:00.000Z; addresses: 10.0.0.0/8"]
    assert lines(plan(found.after, "users: {bo: {}}")) == ["change user bo: expires: never; addresses: any"]
    assert [str(each) for each in found.access] == [
        "bo can sign in until 2027-01-31T00:00:00.000Z (before: without end).",
        "bo can sign in only from 10.0.0.0/8 (before: from anywhere).",
    ]


def test_secrets() -> None:
    text = "connections: {cloud: {kind: s3, options: {bucket: b, secret-access-key: '%s'}}}"
    assert lines(plan(company(), text % "${stored}")) == []
    assert lines(plan(company(), text % "${env:KEY}", KEY="top secret")) == []
    assert lines(plan(company(), text % "${env:KEY}", KEY="another")) == [
        "change connection cloud: secret-access-key changed"
    ]
    assert refused(company(), text % "${env:KEY}") == [
        "company.yaml:1: The environment variable KEY isn't set; set it and try again."
    ]
    without = "connections: {cloud: {kind: s3, options: {bucket: b}}}"
    assert lines(plan(company(), without)) == ["change connection cloud: secret-access-key removed"]
    new = "connections: {new: {kind: s3, options: {bucket: b, secret-access-key: '%s'}}}"
    assert refused(company(), new % "${stored}") == [
        "company.yaml:1: The gateway has no 'secret-access-key' for 'new'; write ${env:NAME} or ${file:PATH}."
    ]
    added = plan(company(), new % "${env:KEY}", KEY="x")
    assert lines(added) == ["add connection new: s3"]
    assert added.after.connections["new"].secrets == {"secret-access-key": "x"}
    assert "'x'" not in repr(added)


def test_a_connection_that_leads_elsewhere() -> None:
    found = plan(company(), "connections: {files: {kind: local, options: {folder: /elsewhere}}}")
    assert lines(found) == ["change connection files: folder changed"]
    assert [str(each) for each in found.access] == [
        "/ leads to files/ instead of the former files/ for anna.",
        "/s leads to files/s instead of the former files/s for bo.",
    ]
    how = plan(
        company(), "connections: {cloud: {kind: s3, options: {bucket: b, region: r, secret-access-key: '${stored}'}}}"
    )
    assert lines(how) == ["change connection cloud: region added"]
    assert how.access == ()


def test_pruning_what_the_file_refers_to() -> None:
    text = "groups:\n  staff:\n    members: [anna]\n    mounts:\n      /x: {connection: files, rights: [list]}"
    assert refused(company(APPLY), text, prune=True) == [
        "company.yaml:3: --prune would remove the user 'anna', who is not in this file; add the user.",
        "company.yaml:5: --prune would remove the connection 'files', which is not in this file; add the connection.",
    ]


def test_what_is_not_there() -> None:
    assert refused(
        company(),
        "groups:\n  staff:\n    members: [ana]\n    mounts:\n      /x: {connection: fils, rights: [list]}\n"
        "users:\n  x:\n    mounts:\n      /x: {connection: other, rights: [list]}",
    ) == [
        "company.yaml:3: There is no user 'ana'; did you mean 'anna'?",
        "company.yaml:5: There is no connection 'fils'; did you mean 'files'?",
        "company.yaml:9: There is no connection 'other'.",
    ]
    assert refused(company(), "connections: {files: {kind: s3, options: {bucket: b}}}") == [
        "company.yaml:1: A connection's kind can't be changed, and 'files' is local; add another connection for s3."
    ]
    assert refused(company(), "connections: {cloud: {kind: s3, options: {bucket: b, prefix: a//b}}}") == [
        "company.yaml:1: The option 'prefix' is not a valid path: A segment of the path is empty; use the names as the listing shows them."
    ]


def ordered(current: str, file: str) -> str:
    groups = {key: GroupPolicy(key, (), frozenset()) for key in current}
    text = f"groups: {{{', '.join(f'{key}: {{}}' for key in file)}}}"
    return "".join(wanted(Policy({}, groups, {}), text).groups)


@pytest.mark.parametrize(
    ("current", "file", "expected"),
    [
        ("", "ab", "ab"),
        ("xy", "ab", "xyab"),
        ("axby", "ab", "axby"),
        ("axby", "ba", "bxay"),
        ("axb", "acb", "acxb"),
        ("xa", "na", "xna"),
        ("xay", "nao", "xnaoy"),
    ],
)
def test_the_order_of_groups(current: str, file: str, expected: str) -> None:
    assert ordered(current, file) == expected


def test_the_order_is_stable() -> None:
    for current in permutations("abx"):
        for file in permutations("abn"):
            once = ordered("".join(current), "".join(file))
            assert [key for key in once if key in file] == list(file)
            assert ordered(once, "".join(file)) == once


def test_another_order_is_a_change() -> None:
    assert lines(
        plan(
            company(), "groups: {partners: {}, staff: {mounts: {/s: {connection: files, folder: /s, rights: [list]}}}}"
        )
    ) == ["change group all groups: order: partners, staff"]


def test_new_users_and_groups() -> None:
    found = plan(
        company(),
        "groups: {guests: {members: [carl], mounts: {/g: {connection: files, rights: [list]}}}}\nusers: {carl: {disabled: false}}",
    )
    assert lines(found) == ["add group guests: mounts: +/g; members: +carl", "add user carl"]
    assert found.new_users == ["carl"]
    assert found.after.users["carl"].origin == found.after.groups["guests"].origin == APPLY
    assert found.after.users["anna"].origin is None
    assert [str(each) for each in found.access] == ["carl gains list on /g."]
    removed = plan(found.after, "groups: {partners: {}}", prune=True)
    assert "remove user carl" in lines(removed)
    assert mounts({}) == removed.after.groups["partners"].mounts
