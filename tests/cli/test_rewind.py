import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from portico.cli.administration import rewind
from portico.operations.rewind.plan import LeftAlone, Plan
from portico.operations.rewind.steps import Step
from portico.store.history import ActorFilter

from .conftest import Portico


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process has changes under way."""
    monkeypatch.setattr(rewind, "_SETTLED_SECONDS", 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--since", "1h"], "Say whose changes to undo, with --user, --key, --link or --session."),
        (["--key", "b", "--since", "1h", "--with-links"], "--with-links needs --user"),
        (["--user", "anna"], "--since is missing: say when the first change was made"),
        (["--user", "anna", "--since", "yesterday"], "--since must be a duration such as 45m"),
        (["--user", "anna", "--since", "2"], "--since must be a duration such as 45m"),
        (["--user", "anna", "--since", "1h", "--freeze"], "add --yes to freeze and rewind"),
        (["--user", "anna", "--since", "1h", "--below", "/a"], "--below needs --connection"),
        (
            ["--user", "anna", "--since", "1h", "--connection", "local", "--below", "local:/a"],
            "--below takes a path without the connection: leave out 'local:'.",
        ),
        (["--user", "anna", "--since", "2999-01-31T09:00"], "--since is in the future: times are in UTC, and it is"),
        (["--user", "anna", "--since", "2h", "--until", "3h"], "--until must be later than --since"),
    ],
)
def test_mistakes(anna: Portico, arguments: list[str], sentence: str) -> None:
    outcome = anna("rewind", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


def test_without_changes_there_is_nothing_to_ask(anna: Portico) -> None:
    outcome = anna("rewind", "--user", "anna", "--since", "1h")
    assert (outcome.code, outcome.out) == (0, "0 changes can be undone.\n")
    assert outcome.err.startswith("The journal has no changes of files by the user anna since 20")
    assert outcome.err.endswith("Z.\n")
    key = anna("key", "add", "anna", "--name", "laptop", "--json").data["id"]
    both = anna("rewind", "--key", key, "--user", "anna", "--since", "2026-01-31", "--until", "2026-02-01")
    assert both.err == (
        f"The journal has no changes of files by the user anna and the key {key} since 2026-01-31T00:00Z until "
        "2026-02-01T00:00Z.\n"
    )
    assert anna("rewind", "--user", "anna", "--since", "1h", "--dry-run", "--json").data == {
        "dryRun": True,
        "steps": [],
        "leftAlone": [],
        "related": [],
    }


def test_an_unknown_actor_is_a_mistake(anna: Portico) -> None:
    key = anna("key", "add", "anna", "--name", "laptop", "--json").data["id"]
    for kind, name, sentence in (
        ("key", "laptop", f"'laptop' is the key's name, but its id is needed: --key {key}"),
        ("key", "nope", "The journal has no line of a key 'nope'; list the ids with 'portico key list'."),
        ("link", "nope", "The journal has no line of a link 'nope'; find it with 'portico audit list'."),
        ("user", "nobody", "The user 'nobody' doesn't exist"),
    ):
        outcome = anna("rewind", f"--{kind}", name, "--key", key, "--since", "1h")
        assert (outcome.code, outcome.out) == (1, "")
        assert sentence in outcome.err


def test_an_unknown_rewind(anna: Portico) -> None:
    for option in ("--resume", "--cancel"):
        outcome = anna("rewind", option, "nope")
        assert outcome.code != 0
        assert "This rewind doesn't exist." in outcome.err


def test_an_actor_is_frozen_before_the_plan(anna: Portico) -> None:
    key = anna("key", "add", "anna", "--name", "laptop", "--json").data["id"]
    tried = anna("rewind", "--key", key, "--since", "1h", "--freeze", "--dry-run")
    assert "Frozen" not in tried.err
    assert [each["id"] for each in anna("key", "list", "--json").lines] == [key]
    frozen = anna("rewind", "--key", key, "--since", "1h", "--freeze", "--yes")
    assert frozen.err.startswith(f"Frozen: ended the key {key} of anna.\n")
    assert anna("key", "list", "--json").lines == []
    unknown = anna("rewind", "--key", key, "--since", "1h", "--freeze", "--yes")
    assert "nothing was frozen" in unknown.err
    assert anna("rewind", "--user", "anna", "--since", "1h", "--freeze", "--yes").code == 0
    assert anna("user", "show", "anna", "--json").data["disabled"] is True
    actions = [line["action"] for line in anna("audit", "list", "--json").lines]
    assert actions[-2:] == ["key.end", "user.disable"]


def test_a_rewind_cannot_be_frozen(anna: Portico, home: Path) -> None:
    with closing(sqlite3.connect(home / "portico.db")) as database, database:
        database.execute(
            "INSERT INTO journal (number, at, node, user, session, action, outcome, line) "
            "SELECT max(number) + 1, at, node, 'os:me', 'r1', 'restore', 'done', '{}' FROM journal"
        )
    outcome = anna("rewind", "--session", "r1", "--freeze", "--yes")
    assert (outcome.code, outcome.err) == (2, "A rewind can't be frozen. Leave out --freeze.\n")


def test_what_is_held(anna: Portico) -> None:
    assert anna("held", "list").out == "Nothing is held.\n"
    assert anna("held", "purge").code == 2
    assert anna("held", "purge", "--yes").out == "Nothing is held.\n"
    chosen = ("--user", "anna", "--connection", "local")
    assert anna("held", "list", *chosen).out == "Nothing is held of anna in the connection local.\n"
    assert anna("held", "purge", *chosen, "--yes").out == "Nothing is held of anna in the connection local.\n"
    for unknown in (("--user", "nobody"), ("--connection", "none")):
        outcome = anna("held", "purge", *unknown, "--yes")
        assert (outcome.code, outcome.out) == (1, "")
        assert f"'{unknown[1]}' doesn't exist" in outcome.err
    assert [line["action"] for line in anna("audit", "list", "--json").lines].count("held.purge") == 2


def test_a_plan_counts_every_kind_of_step(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [Step(action, ("c", "f")) for action in ("restore", "restore", "remove", "move", "make", "tidy", "show")]
    alone = [LeftAlone("conflict", ("c", "d"), by="bob")]
    options = SimpleNamespace(
        as_json=False, dry_run=True, freeze=True, user=["o'hara"], key=["k"], link=[], session=[], with_links=False,
        since=0, until=1000, connection="c", below="/a b",
    )  # fmt: skip
    related = [ActorFilter(link="l1"), ActorFilter(link="l2")]
    rewind._show_plan(Plan(steps, alone, undone=9, related=related), options)
    shown = capsys.readouterr()
    assert shown.out == (
        "9 changes can be undone: 2 to bring back, 1 to remove, 1 to remove if empty, 1 to move back, 1 to make again, "
        "1 to return to the trash.\n"
        "1 change is left alone:\n"
        "  c:/d: bob has changed it since\n"
    )
    assert shown.err == (
        "The link l1 and the link l2 may belong to the same actor. To undo those changes, too:\n"
        "  portico rewind --user 'o'\"'\"'hara' --key k --link l1 --link l2 --since 1970-01-01T00:00:00.000Z "
        "--until 1970-01-01T00:00:01.000Z --connection c --below '/a b' --freeze\n"
        "Nothing was changed. To list each step, add --json.\n"
    )
    rewind._show_plan(Plan([], [], undone=9), options)
    assert capsys.readouterr().out == "9 changes left nothing to undo.\n"


def test_what_is_purged_is_not_held_any_more(anna: Portico, home: Path) -> None:
    with closing(sqlite3.connect(home / "portico.db")) as database, database:
        database.execute(
            "INSERT INTO trash (id, connection, path, is_folder, size, reason, status, user, deleted_at, expires_at) "
            "VALUES ('0', 'local', '/a', 0, 1, 'deleted', 'held', 'Anna', 1, 99999999999999)"
        )
    assert [each["path"] for each in anna("held", "list", "--user", "anna", "--json").lines] == ["/a"]
    assert anna("held", "list", "--connection", "other", "--json").lines == []
    assert "remove 1 item within ten minutes" in anna("held", "purge", "--user", "anna", "--yes").out
    assert anna("held", "list", "--json").lines == []
