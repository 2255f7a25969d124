"""A wheel carries the compiled library where there is a compiler, and is pure Python where there is none."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatch_build import LIBRARY, SOURCE

from ..servers.apt import ensured

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from hatchling.build import build_wheel
print(build_wheel(sys.argv[1]))
"""
INSTALLED = LIBRARY.removeprefix("src/")


def wheel_of(checkout: Path, compiler: str) -> list[str]:
    """The name of the wheel, and what it has of `stats`."""
    command = [sys.executable, "-c", BUILD, str(checkout)]
    built = subprocess.run(
        command,
        cwd=checkout,
        env={"CC": compiler, "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    )
    name = built.stdout.split()[-1]
    with ZipFile(checkout / name) as wheel:
        return [name, *(file for file in wheel.namelist() if "stats" in file.rpartition("/")[2])]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the container image is built from, and of the package as much as a wheel needs."""
    (names,) = re.findall(r"^COPY (.*) \./$", (ROOT / "deploy/Containerfile").read_text(), re.MULTILINE)
    for name in names.split():
        shutil.copy(ROOT / name, tmp_path)
    for name in ("src/portico/__init__.py", SOURCE):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return tmp_path


def test_with_a_compiler(checkout: Path) -> None:
    ensured("gcc", lambda: shutil.which("cc") is not None)
    name, *stats = wheel_of(checkout, "cc")
    assert "-py3-none-" in name
    assert "-any" not in name
    assert INSTALLED in stats


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_without_one(checkout: Path, compiler: str) -> None:
    (checkout / LIBRARY).write_bytes(b"of an earlier build")
    name, *stats = wheel_of(checkout, compiler)
    assert name.endswith("-py3-none-any.whl")
    assert INSTALLED not in stats


def test_all_has_what_the_page_needs() -> None:
    """Without `thumbnails`, the grid has grey icons only, and PDF files have no preview."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "thumbnails" in extras["all"][0]
