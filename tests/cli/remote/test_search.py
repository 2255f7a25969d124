import json
from pathlib import Path

import pytest

from ..conftest import Portico
from .conftest import make


@pytest.fixture(autouse=True)
def files(there: Path) -> None:
    make(there, a="one", reports__2025="x" * 1500, reports__2026="y", reports__old__A2="z")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["/a.txt", "/reports/", "/reports/2025.txt", "/reports/2026.txt", "/reports/old/", "/reports/old/A2.txt"]),
        (("--name", "a"), ["/a.txt", "/reports/old/A2.txt"]),
        (("--name", "a", "--match-case"), ["/a.txt"]),
        (("/reports", "--name", "*2*.txt"), ["/reports/2025.txt", "/reports/2026.txt", "/reports/old/A2.txt"]),
        (("--type", "d"), ["/reports/", "/reports/old/"]),
        (("--larger", "1kB"), ["/reports/2025.txt"]),
        (("--smaller", "2", "/reports"), ["/reports/2026.txt", "/reports/old/A2.txt"]),
        (("--type", "f", "--older", "2023-11-15", "--name", "a.txt"), ["/a.txt"]),
        (("--type", "f", "--newer", "1d"), []),
    ],
)  # fmt: skip
def test_criteria(remote: Portico, options: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(remote("find", *options).out.splitlines()) == expected


def test_json_and_long(remote: Portico) -> None:
    (line,) = remote("find", "--json", "--name", "2025").out.splitlines()
    assert json.loads(line)["absolutePath"] == "/reports/2025.txt"
    assert remote("find", "-h", "--name", "2025").out.split()[:2] == ["1.5", "kB"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--larger", "big"), "--larger must be a number of bytes or a size like 500MB or 10GiB."),
        (("--newer", "soon"), "--newer must be an age like 7d or 12h, or a date like 2026-11-14."),
        (("--type", "picture"), "media type"),
        (("/gone",), "Remote folder '/gone' not found."),
    ],
)
def test_mistakes(remote: Portico, options: tuple[str, ...], sentence: str) -> None:
    result = remote("find", *options)
    assert result.code != 0
    assert sentence in result.err
