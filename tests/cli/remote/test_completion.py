"""What the shell offers while a command is typed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from portico.cli.commands import COMMANDS
from portico.cli.completion import words_of

from ..conftest import Portico
from .conftest import make

Offered = Callable[[str], list[str]]


@pytest.fixture
def offered(remote: Portico, there: Path) -> Offered:
    make(there, reports__2025="1", reports__2026="2", **{"my file": "3"})

    def ask(line: str) -> list[str]:
        outcome = remote("completion", f"--line={line}")
        assert (outcome.code, outcome.err) == (0, "")
        return outcome.out.splitlines()

    return ask


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("portico l", ["login", "logout", "ls"]),
        ("portico sync ", ["up", "down"]),
        ("portico user s", ["set", "show"]),
        ("portico ls --j", ["--json"]),
        ("portico ls ", ["/reports/", "/my file.txt"]),
        ("portico ls /re", ["/reports/"]),
        ("portico ls re", ["/reports/"]),
        ("portico cat /reports/202", ["/reports/2025.txt", "/reports/2026.txt"]),
        ("portico cat -x --profile default /reports/2025", ["/reports/2025.txt"]),
        ("portico cat /my\\ f", ["/my file.txt"]),
        ("portico cat '/my f", ["/my file.txt"]),
        ("portico cat /none/", []),
        ("portico put ", [":files"]),
        ("portico put a.txt /r", ["/reports/"]),
        ("portico put a.txt b", [":files"]),
        ("portico get /r", ["/reports/"]),
        ("portico get /reports ", [":files"]),
        ("portico sync up ", [":files"]),
        ("portico sync up . /r", ["/reports/"]),
        ("portico sync down /r", ["/reports/"]),
        ("portico sync down /reports ", [":files"]),
        ("portico ls --profile d", ["default"]),
        ("portico login --ca ", [":files"]),
        ("portico ls --profile none /r", []),
        ("portico serve --p", ["--port"]),
        ("portico backup ", [":files"]),
        ("portico restore --re", ["--replace"]),
        ("portico cluster ", ["show", "forget"]),
        ("portico user add --r", ["--rights", "--root"]),
        ("portico user show ", []),
        ("portico --home . conn", ["connection"]),
        ("portico --home ", [":files"]),
        ("portico ls --json --pro", ["--profile"]),
        ("portico completion z", ["zsh"]),
        ("portico none ", []),
    ],
)
def test_words(offered: Offered, line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_all_commands_are_offered(offered: Offered) -> None:
    assert offered("portico ") == list(COMMANDS)


def test_lines_are_read_as_shells_do() -> None:
    assert words_of("portico  put 'a b' \"c'd\" e\\ f") == ["portico", "put", "a b", "c'd", "e f"]
    assert words_of("portico ls ") == ["portico", "ls", ""]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`portico` on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "portico").write_text(f'#!/bin/sh\nexec {sys.executable} -m portico "$@"\n')
    (folder / "portico").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("program", "offered")
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("portico ls /re", ["/reports/"]),
        ("portico cat /m", ["/my\\ file.txt"]),
        ("portico put a", ["a.txt"]),
        ("portico mk", ["mkdir"]),
    ],
)
def test_bash(here: Path, line: str, reply: list[str]) -> None:
    make(here, a="1")
    words = " ".join(f"'{word}'" for word in line.split())
    script = f"""
eval "$(portico completion bash)"
COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({words}) COMP_CWORD={len(line.split()) - 1}
_portico
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, reply), done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_of_their_shell(portico: Portico, shell: str) -> None:
    script = portico("completion", shell).out
    assert f"for {shell}" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_a_shell_must_be_named(portico: Portico) -> None:
    assert portico("completion").code == 2
    assert portico("completion", "tcsh").code == 2
