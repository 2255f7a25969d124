"""`portico explain` and `portico who`."""

from pathlib import Path
from typing import Any

import pytest

from .conftest import Portico


@pytest.fixture
def company(anna: Portico, tmp_path: Path) -> Portico:
    """Two connections to folders within each other, a group, and users with overlapping mounts."""
    plans = tmp_path / "disk" / "shared" / "plans"
    plans.mkdir(parents=True)
    (plans / "a.txt").write_text("a")
    for name, folder in (("disk", tmp_path / "disk"), ("plans", plans)):
        assert anna("connection", "add", name, "--kind", "local", "--option", f"folder={folder}").code == 0
    for group in ("staff", "others"):
        anna("group", "add", group)
        given = ("--connection", "disk", "--folder", "/shared", "--rights", "list,download,share")
        assert anna("mount", "add", f"@{group}", "/shared", *given).code == 0
        anna("group", "join", group, "anna")
    given = ("--connection", "disk", "--folder", "/shared/secret", "--rights", "none")
    assert anna("mount", "add", "anna", "/shared/secret", *given).code == 0
    anna("user", "add", "bob", "--connection", "plans", "--root", "/", "--rights", "list", "--generate")
    anna("user", "add", "chi", "--no-root", "--group", "staff", "--generate")
    anna("mount", "add", "chi", "/deep/er", "--connection", "local", "--folder", "/chi")
    return anna


def explained(portico: Portico, *arguments: str) -> Any:
    outcome = portico("explain", *arguments, "--json")
    assert outcome.code == 0
    return outcome.data


def test_which_mount_and_from_where(company: Portico) -> None:
    found = explained(company, "ANNA", "/shared/plans/a.txt")
    assert found == {
        "user": "anna",
        "path": "/shared/plans/a.txt",
        "answer": "anna has list, download, share on /shared/plans/a.txt, through the mount /shared (group staff).",
        "mount": "/shared",
        "from": "group staff",
        "connection": "disk",
        "folder": "/shared",
        "place": "/shared/plans/a.txt",
        "rights": ["list", "download", "share"],
        "sources": dict.fromkeys(("list", "download", "share"), "/shared (group staff)"),
        "inner": [],
        "account": "The account is active.",
        "addresses": [],
        "sharing": "Allowed.",
        "storage": "It answers: there is a file at this path.",
        "alsoFrom": ["@others"],
    }
    shown = company("explain", "anna", "/shared/plans/a.txt").out
    assert "through the mount /shared (group staff)" in shown
    assert "also from" in shown


def test_what_else_can_be_the_reason(company: Portico, tmp_path: Path) -> None:
    assert "it hides /shared/secret/x from anna" in explained(company, "anna", "/shared/secret/x")["answer"]
    assert "only contains other folders" in explained(company, "chi", "/")["answer"]
    assert explained(company, "chi", "/")["inner"] == ["/deep/er", "/shared"]
    assert "only contains other folders" in explained(company, "chi", "/deep")["answer"]
    assert "No mount of chi leads to /nowhere" in explained(company, "chi", "/nowhere")["answer"]
    assert explained(company, "bob", "/none")["storage"] == "It answers: there is nothing at this path."
    assert explained(company, "bob", "/")["storage"] == "It answers: there is a folder at this path."
    assert explained(company, "bob", "/a.txt")["sharing"] == "The right 'share' is missing."
    company("user", "set", "anna", "--addresses", "10.0.0.0/8", "--expires", "2040-01-31")
    found = explained(company, "anna", "/shared")
    assert found["addresses"] == ["10.0.0.0/8"]
    assert found["account"] == "The account is active, and expires at 2040-01-31T00:00:00.000Z."
    company("group", "set", "others", "--expires", "2001-01-31")
    found = explained(company, "anna", "/shared")
    assert found["answer"] == "anna can't do anything now. The account expired at 2001-01-31T00:00:00.000Z."
    company("user", "disable", "anna")
    assert explained(company, "anna", "/shared")["account"] == "The account is disabled."
    (tmp_path / "disk").rename(tmp_path / "away")
    assert explained(company, "anna", "/shared")["storage"].startswith("It doesn't answer: ")
    assert company("explain", "nobody", "/").code == 1
    assert company("explain", "anna", "/../x").code == 2


def test_the_share_rules(company: Portico, home: Path) -> None:
    settings = home / "application.properties"
    former = settings.read_text() if settings.exists() else ""
    settings.write_text(f"{former}\nshare.paths=/public\n")
    assert explained(company, "anna", "/shared")["sharing"] == "share.paths doesn't allow it."
    settings.write_text(f"{former}\nshare.require-password=true\nshare.max-lifetime=30d\n")
    rules = "Allowed. Links need a password. Links end after 720 hours at most."
    assert explained(company, "anna", "/shared")["sharing"] == rules
    settings.write_text(f"{former}\nshare.enabled=false\n")
    assert explained(company, "anna", "/shared")["sharing"] == "Sharing is turned off: see share.enabled."


def reaching(portico: Portico, *arguments: str) -> list[tuple[Any, ...]]:
    outcome = portico("who", *arguments, "--json")
    assert outcome.code == 0
    return [
        (
            each["user"],
            (each["key"] or each["link"] or {}).get("name"),
            each["path"],
            " ".join(each["rights"]),
            each["group"],
            each["onlyPart"],
        )
        for each in outcome.lines
    ]


SHARED = "list download share"


def test_everybody_who_reaches_a_file(company: Portico) -> None:
    """By whichever connection leads there."""
    expected = [
        ("anna", None, "/shared/plans/a.txt", SHARED, "staff", None),
        ("bob", None, "/a.txt", "list", None, None),
        ("chi", None, "/shared/plans/a.txt", SHARED, "staff", None),
    ]
    assert reaching(company, "disk", "/shared/plans/a.txt") == expected
    assert reaching(company, "plans", "a.txt") == expected
    assert reaching(company, "disk", "/shared/secret/x") == [("chi", None, "/shared/secret/x", SHARED, "staff", None)]
    assert reaching(company, "local", "/other") == []
    assert company("who", "local", "/other").out == "No user, key or link reaches this place.\n"


def test_those_who_reach_a_part_of_a_folder(company: Portico) -> None:
    assert reaching(company, "disk", "/") == [
        ("anna", None, "/shared", SHARED, "staff", "/shared"),
        ("bob", None, "/", "list", None, "/shared/plans"),
        ("chi", None, "/shared", SHARED, "staff", "/shared"),
    ]


def test_keys_and_states(company: Portico) -> None:
    company("key", "add", "anna", "--name", "backup", "--folder", "/shared/plans", "--rights", "list")
    company("key", "add", "anna", "--name", "elsewhere", "--folder", "/x", "--rights", "list")
    company("user", "disable", "bob")
    found = reaching(company, "plans", "/a.txt")
    assert ("anna", "backup", "/a.txt", "list", "staff", None) in found
    assert not [each for each in found if each[1] == "elsewhere"]
    states = {each["user"]: each["state"] for each in company("who", "plans", "/a.txt", "--json").lines}
    assert states == {"anna": "active", "bob": "disabled", "chi": "active"}
    table = company("who", "plans", "/a.txt").out.splitlines()
    assert table[0].split() == ["user", "by", "path", "rights", "group", "only", "part", "state"]
    assert any("key backup" in line for line in table)


def test_an_unknown_connection(company: Portico) -> None:
    assert company("who", "nowhere", "/").code == 1
