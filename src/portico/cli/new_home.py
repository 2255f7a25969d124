"""A home is made as a whole or not at all."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from portico.cli.home import PASSWORD_FILE, SET_UP_MARK, make

_DATABASE = "portico.db"
_FILES = ("application.properties", "audit.log", _DATABASE, "secret.key", PASSWORD_FILE)
_FOLDERS = ("tls", "metrics")
_ROOTS = ("files/web", "files")
"""Removed only while they are empty."""


@contextmanager
def all_or_nothing(home: Path) -> Iterator[None]:
    """If this fails for a home that was not set up before, what was made within is removed again, and nothing else."""
    if (home / SET_UP_MARK).exists():
        yield
        return
    folders, lock = _made_and_locked(home)
    try:
        before = set(os.listdir(home))
        try:
            yield
        except BaseException:
            if not (home / SET_UP_MARK).exists():
                _remove_new(home, before)
                _remove_empty(folders)
            raise
    finally:
        os.close(lock)


def _made_and_locked(home: Path) -> tuple[list[Path], int]:
    """The folders that had to be made, and a descriptor with the lock: of two first starts, the second one waits."""
    while True:
        folders = [folder for folder in (home, *home.parents) if not os.path.lexists(folder)]
        try:
            make(home)
        except BaseException:
            _remove_empty(folders)
            raise
        try:
            lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # the other one has just failed
        with suppress(OSError):  # some network file systems know no locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(home)):
                return folders, lock
        os.close(lock)  # the other one has failed, and taken its folder away


def _remove_new(home: Path, before: set[str]) -> None:
    for name in set(os.listdir(home)) - before:
        if name.startswith(_DATABASE) and _DATABASE in before:
            continue  # another command may be writing to it, by its log
        if name.startswith(_FILES):  # also what SQLite keeps beside its file, and drafts
            with suppress(OSError):
                os.unlink(home / name)
        elif name in _FOLDERS:
            shutil.rmtree(home / name, ignore_errors=True)
    if "files" not in before:
        _remove_empty([home / folder for folder in _ROOTS])


def _remove_empty(folders: list[Path]) -> None:
    """The innermost comes first."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
