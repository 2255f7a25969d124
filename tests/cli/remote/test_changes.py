"""`portico mkdir`, `mv`, `cp` and `rm`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import portico
from portico.cli.remote.command import sentence
from portico.client.errors import ClientError
from portico.model.errors import already_exists

from ...gateways import FILES, Gateway
from ..conftest import Portico
from .conftest import make, tree


def test_folders(remote: Portico, there: Path) -> None:
    assert remote("mkdir", "/a/b", "c", "-p").code == 0
    assert remote("mkdir", "/a/b").code == 0
    assert (there / "a" / "b").is_dir()
    assert (there / "c").is_dir()
    make(there, f="1")
    assert remote("mkdir", "/f.txt").code == 1


def test_moving(remote: Portico, there: Path) -> None:
    make(there, a="1", b="2", d__c="3")
    assert remote("mv", "/a.txt", "/renamed.txt").code == 0
    assert remote("mv", "/renamed.txt", "/b.txt", "/d").code == 0
    assert remote("mv", "/d", "/e").code == 0
    assert remote("mv", "/e/*.txt", "/new/").code == 0
    assert tree(there) == {"new/renamed.txt": "1", "new/b.txt": "2", "new/c.txt": "3"}


def test_copying(remote: Portico, there: Path) -> None:
    make(there, a="1", d__b="2")
    assert remote("cp", "/a.txt", "/d").code == 0
    assert remote("cp", "/d", "/e").code == 2
    assert remote("cp", "-r", "/d", "/e").code == 0
    assert tree(there) == {"a.txt": "1", "d/a.txt": "1", "d/b.txt": "2", "e/a.txt": "1", "e/b.txt": "2"}


def test_words_of_the_interface_are_those_of_the_command() -> None:
    for said, shown in (
        (already_exists("a").detail, "'a' already exists and was not replaced; choose another name."),
        (
            "Failed. To continue, repeat the request with onConflict=replace and the target '/b'.",
            "Failed. To continue, repeat the command without --no-clobber, with the target '/b'.",
        ),
        ("Failed. Repeat the request to continue.", "Failed. Repeat the command to continue."),
    ):
        assert sentence(ClientError(said)) == shown


def test_no_clobber(remote: Portico, there: Path) -> None:
    make(there, a="1", b="2")
    for command in ("mv", "cp"):
        outcome = remote(command, "-n", "/a.txt", "/b.txt")
        assert (outcome.code, outcome.err) == (0, "'/b.txt' already exists; it was not replaced.\n")
    assert tree(there) == {"a.txt": "1", "b.txt": "2"}
    assert remote("mv", "/a.txt", "/b.txt").code == 0
    assert tree(there) == {"b.txt": "1"}


def test_removing(remote: Portico, there: Path) -> None:
    make(there, a="1", b="2", c="3", d__e__f="4")
    (there / "empty").mkdir()
    assert remote("rm", "--dry-run", "-r", "/d", "/a.txt").out == "delete /d/\ndelete /a.txt\n"
    assert remote("rm", "/a.txt", "empty").code == 0
    outcome = remote("rm", "/d")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "add -r" in outcome.err
    assert remote("rm", "/?.txt").code == 0
    assert remote("rm", "-r", "/d").code == 0
    assert list(there.iterdir()) == []


def test_going_on(remote: Portico, there: Path) -> None:
    make(there, a="1", b="2")
    outcome = remote("rm", "/a.txt", "/none", "/b.txt")
    assert (outcome.code, tree(there)) == (4, {"b.txt": "2"})
    outcome = remote("rm", "-c", "/none", "/b.txt", "/nor")
    assert (outcome.code, outcome.err.count("\n"), tree(there)) == (4, 2, {})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mv", "/none", "/x"), 4),
        (("mv", "/none/", "/x"), 3),
        (("cp", "/none", "/x"), 4),
        (("cp", "/none*", "/x"), 4),
        (("mv", "/a.txt", "/"), 1),
        (("mv", "/a.txt"), 2),
        (("rm", "/none"), 4),
        (("rm", "/none/"), 3),
        (("rm", "-r", "/none"), 3),
        (("rm", "-r", "/"), 1),
        (("rm",), 2),
        (("mkdir",), 2),
        (("mkdir", "/a/../b"), 2),
    ],
)
def test_failures(remote: Portico, there: Path, arguments: tuple[str, ...], code: int) -> None:
    make(there, a="1")
    outcome = remote(*arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1), outcome.err
    assert tree(there) == {"a.txt": "1"}


def test_a_gateway_that_is_gone_is_a_failure_that_may_pass(remote: Portico, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.client.auth.backoff.random.uniform", lambda *_: 0.0)
    monkeypatch.setenv("PORTICO_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("PORTICO_TOKEN", "x")
    for command in (["ls"], ["rm", "/x"], ["cat", "/x"], ["mkdir", "/x"], ["get", "/x"]):
        outcome = remote(*command)
        assert (outcome.code, outcome.err.count("\n")) == (5, 1), outcome.err


@pytest.mark.parametrize("command", [("mv",), ("mv", "-c"), ("cp",)])
@pytest.mark.parametrize("sources", [("/d/a.txt", "/e/a.txt"), ("/*/a.txt",)])
def test_none_of_two_of_a_name_is_lost(
    remote: Portico, there: Path, command: tuple[str, ...], sources: tuple[str, ...]
) -> None:
    make(there, b="0", d__a="1", e__a="2")
    outcome = remote(*command, "/b.txt", *sources, "/into/")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    assert "the name 'a.txt'" in outcome.err
    assert tree(there) == {"b.txt": "0", "d/a.txt": "1", "e/a.txt": "2"}


_PARAMETER = re.compile("onConflict|(recursive|permanent)=true")


def sentences_with_parameters() -> Iterator[str]:
    """Sentences of the gateway that tell how to change a request, below the API, which only programs talk to."""
    root = Path(portico.__file__).parent
    files = [file for layer in ("model", "drive", "operations", "providers") for file in root.rglob(f"{layer}/**/*.py")]
    for file in files:
        tree = ast.parse(file.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in docs or not isinstance(node.value, str):
                continue
            if _PARAMETER.search(node.value) and " " in node.value:
                yield node.value


def test_errors_name_options_of_the_command() -> None:
    found = list(sentences_with_parameters())
    assert len(found) > 5
    for text in found:
        assert not _PARAMETER.search(sentence(ClientError(text))), text


def test_what_is_missing_is_named_by_its_whole_path(remote: Portico, gateway: Gateway, there: Path) -> None:
    make(there, folder__a="1")
    with gateway.signed_in() as client:
        for method, address in (
            ("GET", "folder/nope?action=LIST"),
            ("GET", "folder/nope?action=STAT"),
            ("GET", "folder/nope?action=SEARCH"),
            ("GET", "folder/nope?action=DOWNLOAD"),
            ("DELETE", "folder/nope"),
            ("DELETE", "folder/nope?permanent=true"),
            ("POST", "folder/nope?action=MOVE&target=/new"),
            ("POST", "folder/nope?action=COPY&target=/new"),
        ):
            answer = client.request(method, f"{FILES}/{address}")
            assert answer.json()["detail"] == "'/folder/nope' doesn't exist. It may have been moved or deleted.", (
                f"{method} {address}"
            )
