"""The examples of docs/client.md run as they are, in order."""

import re
from pathlib import Path

import pytest

from ..gateways import Gateway

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_the_examples_run(
    gateway: Gateway, password: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.csv").write_text("1;2\n" * 1000)
    (tmp_path / "photos" / "2026").mkdir(parents=True)
    (tmp_path / "photos" / "2026" / "cat.jpg").write_bytes(b"cat")
    (tmp_path / "reports").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    gateway.sign_in()

    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) > 8
    known = {"https://files.example.com": gateway.url, '"alice"': '"web"', '"secret"': repr(password)}
    names: dict[str, object] = {"__name__": "example"}
    for example in examples:
        for shown, real in known.items():
            example = example.replace(shown, real)
        exec(compile(example, PAGE, "exec"), names)

    assert (root / "photos" / "2026" / "cat.jpg").read_bytes() == b"cat"
    assert (tmp_path / "copy.csv").read_bytes() == (tmp_path / "report.csv").read_bytes()
    assert (root / "x").read_bytes() == b"x" * 9000
    assert {"letters.csv", "numbers.csv"} <= {path.name for path in (tmp_path / "reports").iterdir()}
    assert not (root / "new").exists()
