"""Builds of Portico: which commit they are of, and the compiled `stats.c`.

Without a C compiler nothing is compiled, and Python does its work. `SOURCE_COMMIT` names the commit where there is no
`.git`, such as in the build of a container image.
"""

import os
import runpy
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/portico/providers/local/stats.c"
LIBRARY = "src/portico/providers/local/libstats.so"
COMMIT = "src/portico/commit.txt"


def compile_stats(root: Path, library: Path) -> None:
    """`OSError` or `CalledProcessError` if there is no compiler, or it cannot."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-std=c99", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", SOURCE, "-o", str(library)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)


def build_commit(root: Path) -> str:
    """Of what is built, unless it has a `commit.txt` already, as a source distribution does."""
    source = runpy.run_path(str(root / "src/portico/__init__.py"))
    return os.environ.get("SOURCE_COMMIT") or str(source["commit_of"](str(root)))


def build_version() -> str:
    root = Path(__file__).parent
    source = runpy.run_path(str(root / "src/portico/__init__.py"))
    if (root / COMMIT).exists():
        return str(source["version"]())
    return str(source["version_of"](build_commit(root)))


class PorticoHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._add_commit(version, build_data)
        if self.target_name == "wheel":
            self._add_stats(build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder)

    def _add_commit(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        # An editable installation reads the commit of the checkout, which changes.
        if version == "editable" or (root / COMMIT).exists() or not (commit := build_commit(root)):
            return
        file = self._folder / "commit.txt"
        file.write_text(f"{commit}\n")
        place = COMMIT if self.target_name == "sdist" else COMMIT.removeprefix("src/")
        build_data["force_include"][str(file)] = place

    def _add_stats(self, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        library = root / LIBRARY
        library.unlink(missing_ok=True)
        try:
            compile_stats(root, library)
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", None) or error
            self.app.display_warning(f"Nothing was compiled, so local folders are listed more slowly: {why}")
            return
        build_data["artifacts"].append(LIBRARY)
        build_data["pure_python"] = False
        # Any Python of this platform: the library does not know of it.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
