"""Packages of the system, installed once with apt-get where tests need them."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable

import pytest


def ensured(package: str, is_there: Callable[[], bool]) -> None:
    """Install `package` unless `is_there`; fail if that is not possible here."""
    # Several test processes may get here at once.
    with open(os.path.join(tempfile.gettempdir(), f"portico-{package}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there():
            return
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            pytest.fail(f"These tests need the package '{package}'; install it.")
        quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
        for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
            subprocess.run(["apt-get", *arguments], check=True, **quiet)  # type: ignore[call-overload]
        assert is_there(), f"the package '{package}' lacks what the tests need"
