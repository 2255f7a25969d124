import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from portico.accounts.policy.assertions import check_assertions
from portico.accounts.policy.document import MAX_BYTES, Mistakes, PolicyMistake, parse
from portico.accounts.policy.export import exported, quoted
from portico.accounts.policy.file import PolicyFile, Reference, StorageKinds, read_policy
from portico.accounts.policy.plan import desired, make_plan
from portico.accounts.policy.policy import ConnectionPolicy, Policy
from portico.accounts.policy.references import References
from portico.model.errors import InvalidRequest
from portico.model.rights import ALL_RIGHTS, Right
from portico.providers.contract.registry import KINDS, PATH_OPTIONS, PLACE_OPTIONS, SECRET_OPTIONS, check_options

from .policies import policy

STORAGE = StorageKinds(KINDS, SECRET_OPTIONS, PATH_OPTIONS, PLACE_OPTIONS, check_options)
SCHEMA = json.loads((files("portico.accounts.policy") / "schema.json").read_text())

COMPLETE = """
# yaml-language-server: $schema=portico.schema.json
connections:
  files:
    kind: local
    options: {folder: /srv/files}
  archive:
    kind: s3
    options:
      bucket: example-archive
      region: ${env:REGION}
      access-key-id: "12345"
      secret-access-key: ${env:ARCHIVE_SECRET}
  blobs:
    kind: azure-blob
    options: {container: blobs, account-url: "https://example.blob.core.windows.net", account-key: "${stored}"}
groups:
  staff:
    members: [anna, Bo]
    expires: 2027-01-31
    addresses: [10.0.0.0/8, "fd00::/8"]
    mounts:
      /home: {connection: files, folder: "/home/{user}", rights: [list, download, upload, overwrite]}
      /teams/hr: {connection: archive, folder: "/{group}", rights: [list]}
  empty:
users:
  anna:
    mounts:
      /private:
        connection: blobs
        rights: []
  Bo:
    disabled: false
    password: ${file:bo.txt}
  no: {}
tests:
  - anna can download /home/report.pdf
  - staff cannot upload to /teams/hr
  - "@staff can't reach /boss"
"""


def read(text: str) -> PolicyFile:
    return read_policy(text, "company.yaml", STORAGE)


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(COMPLETE.splitlines(), 1) if text in line)


def mistakes(text: str) -> list[str]:
    with pytest.raises(PolicyMistake) as caught:
        read(text)
    return caught.value.detail.splitlines()


def plain(text: str) -> Any:
    return parse(text, Mistakes("company.yaml")).plain


def test_a_complete_file() -> None:
    file = read(COMPLETE)
    assert list(file.connections) == ["files", "archive", "blobs"]
    archive = file.connections["archive"].options
    assert archive["access-key-id"] == "12345"
    assert archive["secret-access-key"] == Reference("env", "ARCHIVE_SECRET", line_of("ARCHIVE_SECRET"))
    assert file.connections["blobs"].options["account-key"] == Reference("stored", "", line_of("stored"))
    staff = file.groups["staff"]
    assert staff.members == {"anna": line_of("members"), "Bo": line_of("members")}
    assert [str(each.rule.path) for each in staff.mounts] == ["/home", "/teams/hr"]
    assert staff.mounts[0].rule.rights == ALL_RIGHTS - {Right.SHARE}
    assert str(staff.limits.expires_at) == "2027-01-31 00:00:00+00:00"
    assert [str(each) for each in staff.limits.addresses] == ["10.0.0.0/8", "fd00::/8"]
    assert file.groups["empty"].members is None
    assert list(file.users) == ["anna", "bo", "no"]
    assert file.users["anna"].mounts[0].rule.rights == frozenset()
    assert (file.users["anna"].disabled, file.users["bo"].disabled) == (None, False)
    assert file.users["bo"].password == Reference("file", "bo.txt", line_of("bo.txt"))
    assert [each.line for each in file.assertions] == [line_of("tests") + number for number in (1, 2, 3)]
    jsonschema.validate(plain(COMPLETE), SCHEMA)


_NAME_RULE = (
    "A user name must have 1 to 64 letters, digits or characters of '._-@', and must not start with a dot; "
    "choose another name."
)
_SECRET_RULE = (
    "'secret-access-key' is a secret, which can't be in this file; write ${env:NAME} or ${file:PATH}, "
    "or ${stored} to keep the gateway's."
)

# What is wrong in a file, with its line, in sentences. The third column: whether the schema sees it, too.
WRONG: list[tuple[str, list[str], bool]] = [
    ("user: {}", ["1: Unknown key 'user'; did you mean 'users'?"], True),
    ("users: [anna]", ["1: 'users' must be a mapping, with lines like 'key: value'."], True),
    ("- users", ["1: The file must be a mapping, with lines like 'key: value'."], True),
    ("users:\n  anna: {mount: {}}", ["2: Unknown key 'mount'; did you mean 'mounts'?"], True),
    ("users:\n  anna: {}\n  anna: {}", ["3: 'anna' is already on line 2; remove one of them."], False),
    ("users:\n  anna: {}\n  Anna: {}", ["3: 'Anna' is the same user as 'anna' on line 2; keep one of them."], False),
    (
        "users:\n  a/b: {}",
        ["2: 'a/b' is not a valid name. " + _NAME_RULE],
        True,
    ),
    ("users:\n  anna: {disabled: nope}", ["2: 'disabled' must be true or false."], True),
    ("users:\n  anna: {password: secret}", ["2: A password can't be in this file; write ${env:NAME} or ${file:PATH}."], True),
    ("users:\n  anna: {password: '${stored}'}", ["2: A password can't be in this file; write ${env:NAME} or ${file:PATH}."], True),
    ("users:\n  anna: {expires: soon}", ["2: 'soon' is not a valid time; use one like 2027-01-31 or 2027-01-31T18:00:00Z."], True),
    ("users:\n  anna: {expires: 2027}", ["2: 'expires' must be text; put the value in quotes."], True),
    (
        "users:\n  anna: {addresses: [10.0.0.1/8]}",
        ["2: '10.0.0.1/8' is not a valid address or range; use one like 192.0.2.7, 10.0.0.0/8 or fd00::/8."],
        False,
    ),
    ("users:\n  anna: {addresses: 10.0.0.0/8}", ["2: 'addresses' must be a list, like [one, two]."], True),
    ("users:\n  anna: {addresses: [[]]}", ["2: An address must be a single value."], True),
    ("users:\n  anna: {addresses: [~]}", ["2: An address has no value."], True),
    ("groups:\n  g: {members: [7]}", ["2: A member must be text; put the value in quotes."], True),
    ("users:\n  anna:\n    mounts:\n      hr: {connection: c, rights: []}", ["4: The mount's path must begin with a slash: '/hr'."], True),
    (
        "users:\n  anna:\n    mounts:\n      /a//b: {connection: c, rights: []}",
        ["4: A segment of the path is empty; use the names as the listing shows them."],
        False,
    ),
    (
        "users:\n  anna:\n    mounts:\n      /a: {connection: c, rights: []}\n      /a/: {connection: c, rights: []}",
        ["5: '/a' is already on line 4; remove one of them."],
        False,
    ),
    ("users:\n  anna:\n    mounts:\n      /a: {connection: c}", ["4: The mount '/a' has no 'rights'; add it."], True),
    ("users:\n  anna:\n    mounts:\n      /a: {conection: c, rights: []}", ["4: Unknown key 'conection'; did you mean 'connection'?"], True),
    ("users:\n  anna:\n    mounts:\n      /a: {connection: c, rights: }", ["4: 'rights' has no value; write [] to hide the folder."], True),
    ("users:\n  anna:\n    mounts:\n      /a: {connection: c, rights: [dowload]}", ["4: 'dowload' is not a right; did you mean 'download'?"], True),
    (
        "users:\n  anna:\n    mounts:\n      /a: {connection: c, rights: [x]}",
        ["4: 'x' is not a right; use one of list, download, upload, overwrite, replace, delete, share."],
        True,
    ),
    (
        "users:\n  anna:\n    mounts:\n      /a:\n        connection: c\n        folder: /{usr}\n        rights: []",
        ["6: {usr} can't be replaced here; use {user}, or {group} in a group's mount. Write '{{' for a brace itself."],
        False,
    ),
    (
        "users:\n  anna:\n    mounts:\n      /a: {connection: c, folder: '/{group}', rights: []}",
        ["4: {group} can't be replaced here; use {user}, or {group} in a group's mount. Write '{{' for a brace itself."],
        False,
    ),
    ("connections:\n  c: {options: {folder: /x}}", ["2: The connection 'c' has no 'kind'; add it."], True),
    ("connections:\n  c: {kind: S3}", ["2: 'S3' is not a kind of storage; did you mean 's3'?"], True),
    ("connections:\n  c: {kind: s3}", ["2: The connection 'c' needs the option 'bucket'."], True),
    (
        "connections:\n  c:\n    kind: s3\n    options: {bucket: b, regoin: x}",
        ["4: The kind 's3' has no option 'regoin'; did you mean 'region'?"],
        True,
    ),
    ("connections:\n  c: {kind: s3, options: {bucket: ''}}", ["2: 'bucket' has no value."], True),
    ("connections:\n  c: {kind: local, options: {folder: files}}", ["2: 'folder' must be an absolute path."], True),
    (
        "connections:\n  c: {kind: s3, options: {bucket: '${env:A B}'}}",
        ["2: The value of 'bucket' is not a valid reference; write ${env:NAME} or ${file:PATH}."],
        True,
    ),
    (
        "connections:\n  c:\n    kind: s3\n    options:\n      bucket: b\n      secret-access-key: wJalrXUtnFEMI",
        ["6: " + _SECRET_RULE],
        True,
    ),
    (
        "users:\n  anna: {addresses: [" + ", ".join(f"192.0.2.{number}" for number in range(33)) + "]}",
        ["2: There can be at most 32 address ranges; use wider ones."],
        False,
    ),
    (
        "users:\n  anna:\n    mounts:\n      /: {connection: c, folder: /" + "a" * 1100 + ", rights: []}",
        ["4: The folder of a mount can have at most 1024 bytes; choose a shorter one."],
        False,
    ),
    ("tests: [anna may read /x]", ["1: A test must look like 'anna can download /hr/plan.pdf' or 'partners cannot reach /hr'."], True),
    ("tests: [anna can downlod /x]", ["1: 'downlod' can't be tested; did you mean 'download'?"], True),
    ("tests: [anna can list /a//b]", ["1: A segment of the path is empty; use the names as the listing shows them."], False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected", "in_schema"), WRONG, ids=[text.replace("\n", " ")[:100] for text, _, _ in WRONG]
)
def test_mistakes(text: str, expected: list[str], in_schema: bool) -> None:
    assert mistakes(text) == [f"company.yaml:{each}" for each in expected]
    if "twice" not in expected[0]:
        assert jsonschema.Draft202012Validator(SCHEMA).is_valid(parse(text, Mistakes("")).plain) is not in_schema


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("users: {anna: &a {}}", "1: Anchors and aliases (& and *) are not supported; write the values out."),
        ("users: {anna: *a}", "1: Anchors and aliases (& and *) are not supported; write the values out."),
        (
            "\nusers: !!python/object:os.system {}",
            "2: Tags (!) are not supported; remove it, or put the value in quotes.",
        ),
        ("users: !x {}", "1: Tags (!) are not supported; remove it, or put the value in quotes."),
        ("users: {}\n---\nusers: {}", "2: A file can have only one document; remove this '---' and what follows."),
        ("users: " + "[" * 100, "1: This is nested too deeply."),
        ("users:\n  {a: b}: {}", "2: A key must be a single word; put it in quotes if it has braces or brackets."),
        ("users:\n\tanna: {}", "2: This is not valid YAML: use spaces instead of tabs."),
        ("users:\n  an\x00na: {}", "2: This character is not allowed in YAML."),
    ],
)
def test_yaml_that_is_refused(text: str, expected: str) -> None:
    assert mistakes(text) == [f"company.yaml:{expected}"]


def test_too_many_mounts() -> None:
    table = "\n".join(f"      /{number}: {{connection: c, rights: []}}" for number in range(201))
    assert mistakes(f"users:\n  anna:\n    mounts:\n{table}") == [
        "company.yaml:3: There can be at most 200 mounts of a user or a group."
    ]


def test_braces_without_quotes() -> None:
    [mistake] = mistakes("users:\n  anna:\n    mounts:\n      /: {connection: c, folder: /{user}, rights: []}")
    assert mistake.startswith("company.yaml:4: This is not valid YAML: ")
    assert mistake.endswith(". Put text with braces in quotes.")


def test_all_mistakes_are_told_at_once() -> None:
    lines = "\n".join(f"  u{number}: {{x: 1}}" for number in range(30))
    found = mistakes(f"users:\n{lines}")
    assert len(found) == 21
    assert found[-1] == "company.yaml: There are 10 more mistakes."


def test_words_are_text() -> None:
    assert plain("[no, on, 12:30, 2027-01-31, '1', =, <<]") == ["no", "on", "12:30", "2027-01-31", "1", "=", "<<"]
    assert plain("[true, ~, null]") == [True, None, None]


def parts(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a document."""
    yield path
    keys = document if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else ()
    for key in keys:
        yield from parts(document[key], (*path, key))


def mutations(document: Any) -> Iterator[Any]:
    """The document with one value replaced, one key more, or one less."""
    others: tuple[Any, ...] = (None, 7, True, "x", "", [], {}, ["x"], [7], [None], {"x": 1}, {"x": None})
    for path in parts(document):
        for other in others:
            yield replaced(document, path, other)
        value = document
        for key in path:
            value = value[key]
        if isinstance(value, dict):
            yield from (replaced(document, path, {**value, "zz": more}) for more in others[:2])
            for less in value:
                yield replaced(document, path, {key: each for key, each in value.items() if key != less})


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = document.copy()
    copy[path[0]] = replaced(document[path[0]], path[1:], value)
    return copy


def is_accepted(text: str) -> bool:
    try:
        read(text)
    except PolicyMistake:
        return False
    return True


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.thorough)])
def test_the_schema_accepts_what_the_parser_accepts(step: int) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    cases = list(mutations(plain(COMPLETE)))
    assert len(cases) > 500
    for case in cases[::step]:
        assert validator.is_valid(case) is is_accepted(json.dumps(case)), case


def test_the_schema_knows_the_kinds_and_rights() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    kinds = {
        each["if"]["properties"]["kind"]["const"]: each["then"]["properties"]["options"]
        for each in SCHEMA["$defs"]["connection"]["allOf"]
    }
    assert {name: set(each["properties"]) for name, each in kinds.items()} == {
        name: set(kind.options) for name, kind in KINDS.items()
    }
    assert {name: set(each["required"]) for name, each in kinds.items()} == {
        name: set(kind.required) for name, kind in KINDS.items()
    }
    assert SCHEMA["$defs"]["mount"]["properties"]["rights"]["items"]["enum"] == list(Right)


def test_what_a_kind_requires_says_where_the_files_are() -> None:
    assert {name for kind in KINDS.values() for name in kind.required} <= PLACE_OPTIONS
    assert {name for kind in KINDS.values() for name in kind.options} > PLACE_OPTIONS


def test_references(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    (tmp_path / "nothing").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff")
    references = References(tmp_path, {"NAME": "from the environment", "EMPTY": ""})
    assert references.resolve(Reference("env", "NAME", 1)) == "from the environment"
    assert references.resolve(Reference("file", "secret", 1)) == "from a file"
    assert references.resolve(Reference("file", str(tmp_path / "secret"), 1)) == "from a file"
    for source, name, sentence in (
        ("env", "MISSING", "The environment variable MISSING isn't set; set it and try again."),
        ("env", "EMPTY", "The environment variable EMPTY is empty; set it and try again."),
        ("file", "missing", f"The file {tmp_path}/missing can't be read (No such file or directory)."),
        ("file", "nothing", f"The file {tmp_path}/nothing is empty."),
        ("file", "bytes", f"The file {tmp_path}/bytes is not valid UTF-8; encode it as UTF-8."),
    ):
        with pytest.raises(InvalidRequest) as caught:
            references.resolve(Reference(source, name, 1))
        assert caught.value.detail == sentence
    os.truncate(tmp_path / "secret", 2 * MAX_BYTES)
    with pytest.raises(InvalidRequest, match="is too large for a secret"):
        references.resolve(Reference("file", "secret", 1))


def test_an_exported_policy_is_read_as_it_was() -> None:
    before = policy(
        {
            "anna": {"/": ("files/home/{user}", "list upload overwrite"), "/a b/ü: x": ("files/#1", "")},
            "no": {},
            "@x": {},
        },
        {"staff": (["anna", "@x"], {"/teams": ("files/", "list")}), "empty": ((), {})},
    )
    connection = ConnectionPolicy(
        "files", "s3", {"bucket": "on", "region": "a\u2028b"}, {"secret-access-key": "top secret"}
    )
    before = Policy({"files": connection}, before.groups, before.users)
    text = "\n".join(exported(before))
    assert "top secret" not in text
    file = read(text)
    assert {key: tuple(mount.rule for mount in each.mounts) for key, each in file.users.items()} == {
        key: each.mounts for key, each in before.users.items()
    }
    assert list(file.groups) == ["staff", "empty"]
    assert set(file.groups["staff"].members or ()) == {"anna", "@x"}
    options = file.connections["files"].options
    assert (options["bucket"], options["region"]) == ("on", "a\u2028b")
    assert isinstance(options["secret-access-key"], Reference)
    jsonschema.validate(plain(text), SCHEMA)


@given(st.text())
def test_any_text_can_be_exported(text: str) -> None:
    assert parse(f"{{key: {quoted(text)}, other: x}}", Mistakes("")).plain == {"key": text, "other": "x"}
    assert parse(f"key: [{quoted(text)}]", Mistakes("")).plain == {"key": [text]}
    assert yaml.safe_load(f"key: [{quoted(text)}]") == {"key": [text]}


GUIDE = (Path(__file__).parents[3] / "docs" / "reach.md").read_text()


def test_the_example_of_the_guide() -> None:
    [example] = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.M | re.S)
    jsonschema.validate(plain(example), SCHEMA)
    file = read(example)
    environment = {"CLOUD_SECRET": "x", "DORA_PASSWORD": "x"}
    empty = Policy({}, {}, {})
    after = desired(empty, file, STORAGE, References(Path("/"), environment).resolve, prune=False)
    check_assertions(file.assertions, after, "", datetime(2026, 11, 19, tzinfo=UTC))
    text = example.replace("members: [anna]", "members: [anna, bo]")
    more = desired(empty, read(text), STORAGE, References(Path("/"), environment).resolve, prune=False)
    for change in make_plan(after, more, datetime(2026, 11, 19, tzinfo=UTC)).access:
        assert f"  {change}\n" in GUIDE
