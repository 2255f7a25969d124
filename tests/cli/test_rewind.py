import pytest

from portico.cli.administration import rewind

from .conftest import Portico


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process has changes under way."""
    monkeypatch.setattr(rewind, "_SETTLED_SECONDS", 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--since", "1h"], "Say whose changes are undone, by one of --user, --key, --link and --session."),
        (["--user", "a", "--key", "b", "--since", "1h"], "Say whose changes are undone"),
        (["--user", "anna"], "--since is missing: when the first of the changes was made"),
        (["--user", "anna", "--since", "yesterday"], "--since must be a duration such as 45m"),
        (["--user", "anna", "--since", "1h", "--below", "/a"], "--below needs --connection"),
    ],
)
def test_mistakes(anna: Portico, arguments: list[str], sentence: str) -> None:
    outcome = anna("rewind", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


def test_without_changes_there_is_nothing_to_ask(anna: Portico) -> None:
    outcome = anna("rewind", "--user", "anna", "--since", "1h")
    assert (outcome.code, outcome.out) == (0, "0 changes can be undone.\n")
    assert anna("rewind", "--user", "anna", "--since", "1h", "--dry-run", "--json").data == {
        "dryRun": True,
        "steps": [],
        "leftAlone": [],
    }


def test_an_unknown_rewind(anna: Portico) -> None:
    for option in ("--resume", "--cancel"):
        outcome = anna("rewind", option, "nope")
        assert outcome.code != 0
        assert "There is no rewind with this id." in outcome.err


def test_an_actor_is_frozen_before_the_plan(anna: Portico) -> None:
    key = anna("key", "add", "anna", "--name", "laptop", "--json").data["id"]
    tried = anna("rewind", "--key", key, "--since", "1h", "--freeze", "--dry-run")
    assert "Frozen" not in tried.err
    assert [each["id"] for each in anna("key", "list", "--json").lines] == [key]
    frozen = anna("rewind", "--key", key, "--since", "1h", "--freeze", "--yes")
    assert frozen.err == f"Frozen: ended the key {key} of anna.\n"
    assert anna("key", "list", "--json").lines == []
    unknown = anna("rewind", "--key", key, "--since", "1h", "--freeze", "--yes")
    assert "nothing was frozen" in unknown.err
    assert anna("rewind", "--user", "anna", "--since", "1h", "--freeze", "--yes").code == 0
    assert anna("user", "show", "anna", "--json").data["disabled"] is True
    actions = [line["action"] for line in anna("audit", "list", "--json").lines]
    assert actions[-2:] == ["key.end", "user.disable"]


def test_what_is_held(anna: Portico) -> None:
    assert anna("held", "list").out == "Nothing is held.\n"
    assert anna("held", "purge").code == 2
    assert anna("held", "purge", "--yes").out == "0 items will be removed by the gateway within ten minutes.\n"
