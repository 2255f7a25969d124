import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from portico.cli.remote.connect import connect
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.transfers.downloads import RANGE
from portico.client.transfers.partial_file import PartialFile

from ..conftest import Portico
from .conftest import Start, last_line, make, tree


def test_files(remote: Portico, here: Path, there: Path) -> None:
    make(there, reports__2026="one", reports__2025="two")
    outcome = remote("get", "/reports/2026.txt")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("1 downloaded, 3 B in ")
    assert last_line(remote("get", "reports/2026.txt")).startswith("0 downloaded, 1 skipped")
    remote("get", "/reports/2026.txt", "other.txt")
    remote("get", "/reports/2026.txt", "new/")
    remote("get", "/reports/20*.txt", "all")
    assert tree(here) == {
        "2026.txt": "one",
        "all/2025.txt": "two",
        "all/2026.txt": "one",
        "new/2026.txt": "one",
        "other.txt": "one",
    }


def test_a_folder_keeps_its_name_however_often(remote: Portico, here: Path, there: Path) -> None:
    make(there, reports__a="1", reports__old__b="2")
    (there / "reports" / "empty").mkdir()
    for _ in range(2):
        assert remote("get", "-r", "/reports", "./here").code == 0
    assert tree(here) == {"here/reports/a.txt": "1", "here/reports/old/b.txt": "2"}
    assert (here / "here" / "reports" / "empty").is_dir()
    assert last_line(remote("get", "-r", "/reports", "./here")).startswith("0 downloaded, 2 skipped")
    assert remote("get", "-r", "/reports/.", "content").code == 0
    assert remote("get", "-r", "/", "all").code == 0
    assert sorted(tree(here / "content")) == ["a.txt", "old/b.txt"]
    assert sorted(tree(here / "all")) == ["reports/a.txt", "reports/old/b.txt"]


def test_what_has_changed_is_fetched_again(remote: Portico, here: Path, there: Path) -> None:
    make(there, a="one")
    remote("get", "/a.txt")
    (there / "a.txt").write_text("two")
    os.utime(there / "a.txt", (4e9, 4e9))
    assert last_line(remote("get", "/a.txt")).startswith("1 downloaded")
    assert tree(here) == {"a.txt": "two"}
    make(there, a="old again")
    assert last_line(remote("get", "-n", "/a.txt")).startswith("0 downloaded, 1 skipped")
    assert tree(here) == {"a.txt": "two"}
    remote("get", "/a.txt")
    assert last_line(remote("get", "-f", "/a.txt")).startswith("1 downloaded")
    assert tree(here) == {"a.txt": "old again"}


def test_carrying_on(remote: Portico, here: Path, there: Path) -> None:
    """What an interrupted download has noted is not fetched again."""
    content = os.urandom(1024) * 40 * 1024
    (there / "large.bin").write_bytes(content)
    remote("get", "/large.bin", "whole.bin")
    part = PartialFile("large.bin", keep=True)
    with open(part.path, "r+b") as file:
        file.write(b"\0" * len(content[:RANGE]))
    part.size, part.etag = len(content), _etag(there)
    part.add(0, RANGE)
    part.close()
    assert os.path.exists(part.path)
    assert "Resuming large.bin at 40 %" in remote("get", "/large.bin").err
    assert (here / "large.bin").read_bytes() == b"\0" * RANGE + content[RANGE:]  # it believed what was noted
    assert (here / "whole.bin").read_bytes() == content
    assert sorted(os.listdir(here)) == ["large.bin", "whole.bin"]


def _etag(there: Path) -> str | None:
    with connect(SimpleNamespace(profile=None)) as client:
        return client.head("/large.bin").etag


def test_names_that_lead_elsewhere_are_refused(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(there, d__a="1")
    entries = [
        Entry("../../evil.txt", "/d/../../evil.txt", is_folder=False, size=1),
        Entry("..", "/d/..", is_folder=True),
    ]
    monkeypatch.setattr(Client, "list", lambda *_, **__: iter(entries))
    outcome = remote("get", "-cr", "/d", "x")
    assert outcome.code == 1
    assert "2 failed" in last_line(outcome)
    assert tree(here.parent / "here") == {}


def test_an_error_is_the_end_or_not(remote: Portico, here: Path, there: Path) -> None:
    make(there, d__a="1", d__b="2", d__c="3")
    (here / "d" / "b.txt").mkdir(parents=True)
    outcome = remote("get", "-r", "/d")
    assert outcome.code == 1
    assert outcome.err.splitlines()[0] == "./d/b.txt: Is a directory."
    outcome = remote("get", "-cr", "/d", "/none", ".")
    assert (outcome.code, outcome.err.count("\n")) == (1, 3)
    assert tree(here / "d") == {"a.txt": "1", "c.txt": "3"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("/none",), 4, "file '/none' not found"),
        (("/none/",), 3, "folder '/none/' not found"),
        (("-r", "/none"), 3, "folder '/none' not found"),
        (("/none/a.txt", "x"), 4, "not found"),
        (("/none*",), 4, "matches"),
        (("/d",), 2, "add -r"),
        (("/d/a.txt", "/e/a.txt", "x"), 2, "the name 'a.txt'"),
        (("-r", "/d/.", "/e/.", "x"), 2, "the name 'a.txt'"),
        ((), 2, "missing"),
    ],
)
def test_failures(remote: Portico, here: Path, there: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    make(there, d__a="1", e__a="2")
    outcome = remote("get", *arguments)
    assert (outcome.code, outcome.err.count("\n")) == (code, 1), outcome.err
    assert words in outcome.err
    assert os.listdir(here) == []


def test_a_dry_run_does_nothing(remote: Portico, here: Path, there: Path) -> None:
    make(there, d__a="1", d__e__b="22")
    outcome = remote("get", "-r", "--dry-run", "/d")
    assert outcome.out.splitlines() == ["download /d/a.txt to ./d/a.txt", "download /d/e/b.txt to ./d/e/b.txt"]
    assert outcome.err == "2 would be downloaded, 3 B\n"
    assert os.listdir(here) == []


def test_cat(process: Start, there: Path) -> None:
    make(there, a="one\n", b="two\n")
    assert process("cat", "/a.txt", "b.txt").communicate()[0] == b"one\ntwo\n"
    assert process("cat", "/*.txt").communicate()[0] == b"one\ntwo\n"
    assert process("get", "/a.txt", "-").communicate()[0] == b"one\n"
    command = process("cat", "/none")
    assert b"file '/none' not found" in command.communicate()[1]
    assert command.returncode == 4
    (there / "d").mkdir()
    command = process("cat", "d")
    assert command.communicate()[1] == b"'/d' is a folder; choose a file in it.\n"
    assert command.returncode == 1
    command = process("get", "-r", "/d", "-")
    assert command.communicate()[1] == b"A folder can't be written to standard output; choose a file.\n"
    assert command.returncode == 1


@pytest.mark.parametrize("arguments", [("cat", "/large.bin"), ("ls", "-lR"), ("ls", "--json", "-R")])
def test_a_reader_that_goes_away_is_no_drama(process: Start, there: Path, arguments: tuple[str, ...]) -> None:
    (there / "large.bin").write_bytes(bytes(20 * 1024 * 1024))
    for number in range(3000):
        (there / f"{number}-{'x' * 60}").touch()
    command = process(*arguments)
    assert command.stdout is not None
    command.stdout.read(10)
    command.stdout.close()
    assert command.wait(60) == 141
    assert command.stderr is not None
    assert command.stderr.read() == b""


def test_a_reader_that_was_never_there(process: Start, there: Path) -> None:
    make(there, a="1")
    reader, writer = os.pipe()
    os.close(reader)
    command = process("ls", stdout=writer)
    os.close(writer)
    assert command.communicate()[1] == b""
    assert command.returncode == 141


def test_a_file_is_called_here_as_it_was_asked_for(
    remote: Portico, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(there, a="1")
    stat = Client.stat
    monkeypatch.setattr(Client, "stat", lambda *given: replace(stat(*given), name="../evil.txt"))
    assert remote("get", "/a.txt", "sub/").code == 0
    assert tree(here) == {"sub/a.txt": "1"}
