"""`portico mount` and `portico group`, and what `portico user` shows of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from .conftest import Portico


@pytest.fixture
def company(anna: Portico, tmp_path: Path) -> Portico:
    """With a connection `disk` to an empty folder, and the group `staff`."""
    (tmp_path / "disk").mkdir()
    assert anna("connection", "add", "disk", "--kind", "local", "--option", f"folder={tmp_path / 'disk'}").code == 0
    assert anna("group", "add", "staff").code == 0
    return anna


def mounts(portico: Portico, name: str) -> list[tuple[str, str, str, str, str | None]]:
    found = portico("user", "show", name, "--json").data["mounts"]
    return [
        (each["path"], each["connection"], each["folder"], " ".join(each["rights"]), each["group"]) for each in found
    ]


OWN = ("/", "local", "/anna", "list download upload overwrite", None)


def test_mounts_of_a_user_and_of_a_group(company: Portico) -> None:
    given = ("--connection", "disk", "--folder", "/shared")
    assert company("mount", "add", "@staff", "/shared", *given, "--rights", "list,replace").code == 0
    assert mounts(company, "anna") == [OWN]
    assert company("group", "join", "staff", "ANNA").code == 0
    assert mounts(company, "anna") == [OWN, ("/shared", "disk", "/shared", "list replace", "staff")]
    assert company("mount", "add", "anna", "/shared/secret", *given, "--rights", "none").code == 0
    assert mounts(company, "anna")[2] == ("/shared/secret", "disk", "/shared", "", None)
    assert company("mount", "set", "anna", "/shared/secret", "--rights", "list", "--path", "/open").code == 0
    assert mounts(company, "anna")[1] == ("/open", "disk", "/shared", "list", None)
    assert [each["owner"] for each in company("mount", "list", "--json").lines] == ["anna", "anna", "@staff"]
    assert company("mount", "list", "@staff", "--json").data == {
        "owner": "@staff",
        "path": "/shared",
        "connection": "disk",
        "folder": "/shared",
        "rights": ["list", "replace"],
    }
    assert company("mount", "remove", "anna", "/").code == 0
    shown = company("user", "show", "anna", "--json").data
    assert (shown["connection"], shown["root"], shown["rights"]) == (None, None, [])
    assert company("group", "leave", "staff", "anna").code == 0
    assert mounts(company, "anna") == [("/open", "disk", "/shared", "list", None)]


def test_the_lists_for_people(company: Portico) -> None:
    company("mount", "add", "@staff", "/shared", "--connection", "disk", "--folder", "/s")
    company("group", "join", "staff", "anna")
    company("user", "add", "bob", "--no-root", "--generate")
    lines = [line.split() for line in company("user", "list").out.splitlines()]
    assert lines == [
        ["name", "path", "connection", "folder", "rights", "group", "disabled"],
        ["anna", "/", "local", "/anna", "list", "download", "upload", "overwrite", "no"],
        ["/shared", "disk", "/s", "list", "download", "upload", "overwrite", "staff"],
        ["bob", "no"],
    ]
    shown = company("user", "show", "anna").out
    assert "groups               staff" in shown
    assert "/shared" in shown
    assert "This user has no mounts." in company("user", "show", "bob").out
    assert "staff" in company("group", "list").out


def test_a_user_who_is_only_in_a_group(company: Portico) -> None:
    company("mount", "add", "@staff", "/home", "--connection", "disk", "--folder", "/homes/{user}")
    added = company("user", "add", "Bob", "--no-root", "--group", "STAFF", "--expires", "2040-01-31", "--json")
    assert added.data["groups"] == ["staff"]
    assert added.data["expiresAt"] == "2040-01-31T00:00:00.000Z"
    assert mounts(company, "bob") == [("/home", "disk", "/homes/Bob", "list download upload overwrite", "staff")]
    assert "with 1 mount." in company("user", "add", "chi", "--no-root", "--group", "staff").out
    outcome = company("user", "set", "bob", "--rights", "list")
    assert outcome.code == 1
    assert "has no mount at /; change the mounts with 'portico mount add'" in outcome.err


def test_the_order_and_the_limits_of_groups(company: Portico) -> None:
    assert company("group", "add", "first", "--before", "staff", "--expires", "90d").code == 0
    assert [each["name"] for each in company("group", "list", "--json").lines] == ["first", "staff"]
    limits = ("--expires", "2040-01-31", "--addresses", "10.0.0.0/8,192.0.2.7")
    assert company("group", "set", "first", "--last", "--name", "Last", *limits).code == 0
    assert [each["name"] for each in company("group", "list", "--json").lines] == ["staff", "Last"]
    assert company("group", "show", "last", "--json").data == {
        "name": "Last",
        "members": [],
        "expiresAt": "2040-01-31T00:00:00.000Z",
        "addresses": ["10.0.0.0/8", "192.0.2.7/32"],
    }
    assert company("group", "set", "last", "--expires", "never", "--addresses", "any").code == 0
    shown = company("group", "show", "last", "--json").data
    assert (shown["expiresAt"], shown["addresses"]) == (None, [])
    assert company("user", "set", "anna", *limits).code == 0
    assert company("user", "show", "anna", "--json").data["addresses"] == ["10.0.0.0/8", "192.0.2.7/32"]
    assert company("group", "delete", "last").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("mount", "add", "anna", "/x", "--folder", "/"), 2, "--connection is missing"),
        (("mount", "add", "anna", "/x", "--connection", "disk"), 2, "--folder is missing"),
        (("mount", "add", "anna", "/x", "--connection", "gone", "--folder", "/"), 1, "doesn't exist"),
        (("mount", "add", "nobody", "/x", "--connection", "disk", "--folder", "/"), 1, "user 'nobody' doesn't exist"),
        (("mount", "add", "@no", "/x", "--connection", "disk", "--folder", "/"), 1, "group 'no' doesn't exist"),
        (("mount", "add", "anna", "/x", "--connection", "disk", "--folder", "/{usr}"), 2, "can't be replaced"),
        (("mount", "add", "anna", "/../x", "--connection", "disk", "--folder", "/"), 2, "'..'"),
        (("mount", "set", "anna", "/x"), 2, "nothing to change"),
        (("mount", "set", "anna", "/x", "--rights", "list"), 1, "anna has no mount at /x"),
        (("mount", "set", "anna", "/", "--rights", "fly"), 2, "'fly' is not a right"),
        (("mount", "set", "anna", "/", "--rights", ""), 2, "or none to hide the folder"),
        (("group", "join", "staff"), 2, "A user is missing"),
        (("group", "join", "staff", "nobody"), 1, "user 'nobody' doesn't exist"),
        (("group", "leave", "staff", "anna"), 1, "'anna' is not a member"),
        (("group", "set", "staff"), 2, "nothing to change"),
        (("group", "set", "staff", "--expires", "soon"), 2, "--expires: 'soon' is not a valid time"),
        (("group", "set", "staff", "--addresses", "here"), 2, "not a valid address"),
        (("user", "add", "bob", "--no-root", "--group", "none", "--generate"), 1, "group 'none' doesn't exist"),
        (("connection", "delete", "local"), 1, "is used by anna; remove or change these mounts first"),
    ],
)
def test_refusals(company: Portico, arguments: Sequence[str], code: int, sentence: str) -> None:
    outcome = company(*arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert sentence in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("user", "add", "bob", "--connection", "disk", "--root", "/homes/{user}", "--generate"),
        ("user", "add", "bob", "--no-root", "--group", "staff", "--generate"),
        ("group", "join", "staff", "bob"),
        ("mount", "add", "bob", "/mine", "--connection", "disk", "--folder", "/homes/{user}"),
        ("mount", "add", "@others", "/mine", "--connection", "disk", "--folder", "/homes/{user}"),
        ("mount", "set", "@others", "/other", "--folder", "/homes/{user}"),
        ("user", "set", "bob", "--connection", "disk", "--root", "/homes/{user}"),
    ],
)
def test_a_folder_that_was_left_behind_is_reported(company: Portico, tmp_path: Path, arguments: Sequence[str]) -> None:
    company("mount", "add", "@staff", "/home", "--connection", "disk", "--folder", "/homes/{user}")
    company("group", "add", "others")
    if arguments[:2] != ("user", "add"):
        assert company("user", "add", "bob", "--generate", "--group", "others").code == 0
    company("mount", "add", "@others", "/other", "--connection", "disk", "--folder", "/other")
    left = tmp_path / "disk" / "homes" / "bob"
    left.mkdir(parents=True)
    (left / "secret.txt").write_text("left behind")
    outcome = company(*arguments)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "/homes/bob in disk (for 'bob')" in outcome.err
    assert "--existing-folder" in outcome.err
    (left / "secret.txt").unlink()
    if arguments[1] == "set" or arguments[:2] == ("user", "set"):
        (left / "secret.txt").write_text("left behind")
        assert company(*arguments, "--existing-folder").code == 0
    else:
        assert company(*arguments).code == 0


def test_a_storage_that_does_not_answer_rules_nothing_out(company: Portico, tmp_path: Path) -> None:
    (tmp_path / "disk").rename(tmp_path / "away")
    arguments = ("mount", "add", "anna", "/home", "--connection", "disk", "--folder", "/{user}")
    outcome = company(*arguments)
    assert outcome.code == 1
    assert "connection disk doesn't answer" in outcome.err
    assert company(*arguments, "--existing-folder").code == 0


def test_each_change_is_audited(company: Portico) -> None:
    company("mount", "add", "@staff", "/x", "--connection", "disk", "--folder", "/")
    company("mount", "set", "@staff", "/x", "--rights", "list")
    company("mount", "remove", "@staff", "/x")
    company("group", "join", "staff", "anna")
    company("group", "set", "staff", "--expires", "9d")
    company("group", "leave", "staff", "anna")
    company("group", "delete", "staff")
    lines = company("audit", "list", "--json").lines
    assert [(line["action"], line["subject"], line.get("changed")) for line in lines[-7:]] == [
        ("mount.add", "@staff /x", None),
        ("mount.set", "@staff /x", ["rights"]),
        ("mount.remove", "@staff /x", None),
        ("group.join", "staff", ["anna"]),
        ("group.set", "staff", ["expires"]),
        ("group.leave", "staff", ["anna"]),
        ("group.delete", "staff", None),
    ]
