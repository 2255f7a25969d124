"""A wheel carries the compiled library where there is a compiler, and the commit it was built from, where that is known."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatch_build import LIBRARY, SOURCE

from portico import RELEASE, commit_of

from ..servers.apt import ensured

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from hatchling.build import build_sdist, build_wheel
print((build_sdist if "sdist" in sys.argv else build_wheel)(sys.argv[1]))
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
INSTALLED = LIBRARY.removeprefix("src/")


def built(checkout: Path, kind: str = "wheel", compiler: str = "false", **environment: str) -> str:
    """The name of a new file in the checkout: a wheel, or a source distribution."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(checkout), kind],
        cwd=checkout,
        env={"CC": compiler, "PATH": "/usr/bin:/bin", **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()[-1]


def wheel_of(checkout: Path, compiler: str) -> list[str]:
    """The name of the wheel, and what it has of `stats`."""
    name = built(checkout, compiler=compiler)
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


def version_in(wheel: Path, folder: Path) -> str:
    """What `portico.__version__` is, once this wheel is installed."""
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    script = "import portico; print(portico.__version__)"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {script}"],
        check=True,
        capture_output=True,
        text=True,
    )
    return ran.stdout.strip()


def with_git(checkout: Path) -> None:
    """As git leaves it: a branch, and all references in one file."""
    (checkout / ".git").mkdir()
    (checkout / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (checkout / ".git/packed-refs").write_text(f"# pack-refs\n{OTHER} refs/heads/a\n{COMMIT} refs/heads/main\n")


def test_a_build_from_git_has_its_commit_in_the_version(checkout: Path, tmp_path: Path) -> None:
    with_git(checkout)
    name = built(checkout)
    assert f"-{RELEASE}+g0123456789-" in name
    assert version_in(checkout / name, tmp_path / "installed") == f"{RELEASE}+g0123456789"
    assert not (checkout / "src/portico/commit.txt").exists()  # it would be that of the next build, too


def test_the_readme_installs_a_wheel_built_from_git(checkout: Path) -> None:
    with_git(checkout)
    (pattern,) = re.findall(r"/tmp/(portico_gateway-.*\.whl)", (ROOT / "README.md").read_text())
    assert fnmatch(built(checkout), pattern)


def test_a_source_distribution_keeps_the_commit(checkout: Path, tmp_path: Path) -> None:
    with_git(checkout)
    source = built(checkout, "sdist")
    with tarfile.open(checkout / source) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    name = built(unpacked)
    assert f"-{RELEASE}+g0123456789-" in name
    assert version_in(unpacked / name, tmp_path / "installed") == f"{RELEASE}+g0123456789"


def test_a_copy_without_git_is_told_its_commit_or_has_only_the_release(checkout: Path, tmp_path: Path) -> None:
    name = built(checkout)
    assert f"-{RELEASE}-" in name
    assert version_in(checkout / name, tmp_path / "plain") == RELEASE
    name = built(checkout, SOURCE_COMMIT=COMMIT)
    assert f"-{RELEASE}+g0123456789-" in name
    assert version_in(checkout / name, tmp_path / "told") == f"{RELEASE}+g0123456789"


def test_a_checkout_reads_its_commit(tmp_path: Path) -> None:
    assert commit_of(str(tmp_path)) == ""
    with_git(tmp_path)
    assert commit_of(str(tmp_path)) == COMMIT
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/refs/heads/main").write_text(f"{OTHER}\n")
    assert commit_of(str(tmp_path)) == OTHER
    (tmp_path / ".git/HEAD").write_text(f"{COMMIT}\n")  # detached
    assert commit_of(str(tmp_path)) == COMMIT
    worktree, place = tmp_path / "worktree", tmp_path / ".git/worktrees/worktree"
    worktree.mkdir()
    place.mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {place}\n")
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "commondir").write_text("../..\n")
    assert commit_of(str(worktree)) == OTHER


def test_the_readme_says_what_all_installs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (installed,) = re.findall(r"\[(.*)\]", extras["all"][0])
    (row,) = re.findall(r"^\| `all` \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert re.findall("`(.*?)`", row) == installed.split(",")
