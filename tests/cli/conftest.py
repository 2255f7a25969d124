import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pytest

from portico.cli.main import run


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one object that `--json` printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """What `--json` printed: an object on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


Portico = Callable[..., Outcome]

PASSWORD = "correct horse"


def audit_lines(text: str) -> list[dict[str, Any]]:
    """The lines of an audit log, without checkpoints."""
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if line["action"] != "audit.checkpoint"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def portico(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Portico:
    """The command, in this process, with its home in a new folder and text or a file on its standard input."""

    def call(*arguments: str, stdin: str | TextIO = "") -> Outcome:
        if isinstance(stdin, str):
            stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        code = run(["--home", str(home), *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the user `anna`, to copy: migrations and the password hash take half a second."""
    home = tmp_path_factory.mktemp("prepared") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
        assert run(["--home", str(home), "user", "add", "anna", "--password-stdin"]) == 0
    return home


@pytest.fixture
def anna(portico: Portico, home: Path, prepared_home: Path, capsys: pytest.CaptureFixture[str]) -> Portico:
    """The command, with a home that has the user `anna`."""
    capsys.readouterr()
    shutil.copytree(prepared_home, home)
    return portico
