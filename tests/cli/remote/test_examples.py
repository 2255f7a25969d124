"""What the documentation tells people to type works."""

import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from portico.cli.commands import COMMANDS, load
from portico.cli.console.parser import Command, Parser

from ...gateways import Gateway
from .conftest import tree

DOCS = Path(__file__).parents[3] / "docs"
CLIENT = [name for name, command in COMMANDS.items() if not command.needs_server]


@pytest.mark.usefixtures("config")
def test_the_examples_run(gateway: Gateway, here: Path, there: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "examples.md").read_text(), re.DOTALL)
    assert len(blocks) == 7
    (here / "photos" / "summer").mkdir(parents=True)
    for name in ("2025.csv", "2026.csv", "photos/a.jpg", "photos/summer/b.jpg"):
        (here / name).write_text("year,sum\n2026,1\n")
    (here / "password.txt").write_text(gateway.password)
    lines = "".join(blocks)
    # The one that asks for the password needs a person.
    lines = lines.replace("login $GATEWAY --user web\n", "login $GATEWAY --user web --password-stdin < password.txt\n")
    setting = f"""set -eu -o pipefail
portico() {{ {sys.executable} -m portico "$@"; }}
GATEWAY={gateway.url}
TOKEN={gateway.login()["access_token"]}
"""
    done = subprocess.run(["bash", "-c", setting + lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 uploaded, 2 skipped" in done.stderr
    assert "year,sum\n" in done.stdout
    assert sorted(file for file in tree_names(there)) == [
        "archive/2025/2025.csv",
        "backup/photos.tar.gz",
        "backup/photos/a.jpg",
        "backup/photos/summer/b.jpg",
        "mirror/a.jpg",
        "mirror/summer/b.jpg",
        "reports/2026.csv",
    ]
    assert sorted(tree(here / "here")) == ["reports/2025.csv", "reports/2026.csv", "reports/latest.csv"]
    assert tree(here / "mirror") == tree(here / "photos")


def tree_names(folder: Path) -> list[str]:
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]


@pytest.mark.parametrize("name", CLIENT)
def test_every_command_and_option_is_documented(name: str) -> None:
    text = (DOCS / "command-line.md").read_text()
    assert f"portico {name}" in text
    part = text[text.index("## Files on a gateway") :]
    command = load(name)
    commands = [command] if isinstance(command, Command) else command.commands.values()
    for option in chain.from_iterable(Parser(each, name).options for each in commands):
        if option.startswith("--") and option not in ("--help", "--line"):
            assert f"`{option}" in part or f"[{option}" in part or f" {option}" in part, option
