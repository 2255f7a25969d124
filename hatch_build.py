"""Compiles `stats.c` when Portico is installed or built, if there is a C compiler. Without one, Python does its work."""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/portico/providers/local/stats.c"
LIBRARY = "src/portico/providers/local/libstats.so"


def compile_stats(root: Path, library: Path) -> None:
    """`OSError` or `CalledProcessError` if there is no compiler, or it cannot."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [
        *compiler,
        "-std=c99",
        "-O2",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        SOURCE,
        "-o",
        str(library),
    ]
    subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)


class StatsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
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
