"""bindfs: a folder mounted at a second place, through FUSE, which does not forward locks. As two machines see a share."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import apt


@contextmanager
def mounts() -> Iterator["Mounts"]:
    """Unmounts at the end what is still mounted. Skips the test where nothing can be mounted, except on CI."""
    try:
        apt.ensured("bindfs", lambda: shutil.which("bindfs") is not None)
    except (OSError, subprocess.CalledProcessError, pytest.fail.Exception):
        apt.lacking("bindfs is not installed, and cannot be installed here.")
    mounted = Mounts()
    try:
        yield mounted
    finally:
        for folder in list(mounted.folders):
            mounted.unmount(folder)


class Mounts:
    def __init__(self) -> None:
        self.folders: list[Path] = []

    def mount(self, source: Path, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        done = subprocess.run(["bindfs", source, folder], capture_output=True, text=True, check=False)
        if done.returncode:
            apt.lacking(f"This user may not mount with bindfs: {done.stderr}")
        self.folders.append(folder)

    def unmount(self, folder: Path) -> None:
        """Also while it is in use."""
        program = shutil.which("fusermount3") or shutil.which("fusermount")
        subprocess.run([program, "-u", "-z", folder] if program else ["umount", "-l", folder], check=True)
        self.folders.remove(folder)
