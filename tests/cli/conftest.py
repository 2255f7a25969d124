import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from portico.cli.main import run


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Portico = Callable[..., Outcome]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def portico(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Portico:
    """The command, in this process, with its home in a new folder and text on its standard input."""

    def call(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(["--home", str(home), *arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
