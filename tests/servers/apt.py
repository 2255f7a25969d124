"""Packages of the system, installed once with apt-get where tests need them."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from typing import NoReturn

import pytest


def ensured(package: str, is_there: Callable[[], bool]) -> None:
    """Install `package` unless `is_there`; fail if that is not possible here."""
    # Several test processes may get here at once, and apt-get does not wait for another one.
    with open(os.path.join(tempfile.gettempdir(), "portico-apt.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_there():
            return
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            pytest.fail(f"These tests need the package '{package}'; install it.")
        # The lists of packages are loaded once, for the first package that is not known.
        if not _done("install", "-y", "-qq", "--no-install-recommends", package, check=False):
            _done("update", "-qq")
            _done("install", "-y", "-qq", "--no-install-recommends", package)
        assert is_there(), f"the package '{package}' lacks what the tests need"


def lacking(reason: str) -> NoReturn:
    """Skip the test, but never on CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _done(*arguments: str, check: bool = True) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=600", *arguments]
    errors = None if check else subprocess.DEVNULL
    return not subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=errors, check=check
    ).returncode
