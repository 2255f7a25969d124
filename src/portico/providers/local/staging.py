"""Files on their way in, and trees on their way out.

Both live in one hidden folder at the top of the connection's folder, so in the same file system as their target.
A staged file is locked by its writer. The lock ends with the process, however that ends, so whatever is found
unlocked there is left over and may go.
"""

import errno
import fcntl
import os
import secrets
import stat as modes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from portico.entries import Entry
from portico.errors import AlreadyExists, IsAFolder, ProviderRefused, already_exists
from portico.paths import RESERVED_PREFIX, Path
from portico.providers.local.descriptors import (
    entry_of,
    is_folder,
    look,
    open_folder,
    opened_folder,
    opened_way,
    visible,
)
from portico.providers.local.stops import Stop

_STAGING = Path((f"{RESERVED_PREFIX}staging",))
_MOST_BUFFERS = 512  # below the kernel's IOV_MAX


class StagedFile:
    """A file that nobody sees until `commit`. All methods block; they are called one after the other."""

    def __init__(
        self, top: str, target: Path, *, replace: bool, otherwise: Iterator[Path] | None = None
    ) -> None:
        self._top = top
        self._target = target
        self._replace = replace
        self._otherwise = otherwise
        self._name = ""
        self._staging = -1
        self._file = -1

    def open(self) -> int:
        """Begin, unless that is done; fails early if the target could never be written."""
        if self._file >= 0:
            return self._file
        self._check_way()
        self._staging = open_folder(self._top, _STAGING, make=True)
        try:
            self._name, self._file = _create(self._staging)
        except BaseException:
            os.close(self._staging)
            raise
        return self._file

    def append(self, buffers: Sequence[bytes]) -> None:
        file = self.open()
        for start in range(0, len(buffers), _MOST_BUFFERS):
            write_all(file, buffers[start : start + _MOST_BUFFERS])

    def commit(self) -> Entry:
        """Make the content durable, then the file visible, then the name durable."""
        file = self.open()
        os.fsync(file)
        with opened_folder(self._top, self._target.parent, make=True) as folder:
            while True:
                try:
                    check_replaceable(look(folder, self._target.name), self._target, replace=self._replace)
                    place(self._staging, self._name, folder, self._target, replace=self._replace)
                    break
                except (AlreadyExists, IsAFolder):
                    self._choose_another()
            os.fsync(folder)
        entry = entry_of(self._target.name, os.fstat(file), with_etag=True)
        with suppress(OSError):  # it is synced, and stands
            self._close()
        return entry

    def discard(self) -> None:
        """Leave no trace. Harmless after `commit`."""
        if self._file < 0:
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(self._name, dir_fd=self._staging)
        finally:
            self._close()

    def _choose_another(self) -> None:
        """Take the next of the other names; raise again what is being handled if there is none."""
        other = next(self._otherwise, None) if self._otherwise else None
        if other is None:
            raise
        self._target = other

    def _close(self) -> None:
        file, staging, self._file, self._staging = self._file, self._staging, -1, -1
        try:
            os.close(file)  # never twice: the number may be another file's by then
        finally:
            os.close(staging)

    def _check_way(self) -> None:
        """Look before a large body is taken in: what would fail at the commit fails now."""
        with (
            opened_folder(self._top, Path()) as top,
            opened_way(self._top, self._target.parent) as (folder, whole),
        ):
            check_same_disk(folder, top, self._top, self._target.parent)
            if whole and self._otherwise is None:
                check_replaceable(look(folder, self._target.name), self._target, replace=self._replace)
            else:
                for name in self._target.segments:
                    look(folder, name)  # a name that the disk cannot hold fails here, before folders are made


def check_same_disk(folder: int, staging: int, top: str, path: Path) -> None:
    """`ProviderRefused` if nothing can be renamed from where it is staged into the folder."""
    if os.fstat(folder).st_dev != os.fstat(staging).st_dev:
        raise ProviderRefused(
            "This folder is on another disk than the connection's; tell the administrator.",
            cause=f"{path} is another file system than {top}: give it a connection of its own",
        )


@contextmanager
def opened_staging(top: str) -> Iterator[int]:
    with opened_folder(top, _STAGING, make=True) as staging:
        yield staging


@contextmanager
def new_file(staging: int) -> Iterator[tuple[str, int]]:
    """A staged file by its name and descriptor; it goes at the end, unless it was given another name."""
    name, file = _create(staging)
    try:
        yield name, file
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=staging)
        os.close(file)


def _create(staging: int) -> tuple[str, int]:
    """A new file that is ours: its name and its descriptor."""
    while True:
        name = os.urandom(16).hex()
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=staging)
        try:
            if _try_lock(file) and os.fstat(file).st_nlink:
                return name, file
        except BaseException:  # a file system that knows no locks
            os.close(file)
            os.unlink(name, dir_fd=staging)
            raise
        os.close(file)  # a sweep came between creation and lock


def check_replaceable(info: os.stat_result | None, target: Path, *, replace: bool) -> None:
    """Whether a file may take the place of what is at `target`."""
    if info is None:
        return
    if is_folder(info):
        raise IsAFolder(f"'{target.name}' is a folder; a file cannot take its place.")
    if not replace or not visible(info):
        raise already_exists(target.name)


def place(source_folder: int, source_name: str, folder: int, target: Path, *, replace: bool) -> None:
    """Give a file its name at `target`, atomically, whoever else tries the same."""
    if replace:
        os.rename(source_name, target.name, src_dir_fd=source_folder, dst_dir_fd=folder)
        return
    try:
        os.link(source_name, target.name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError as error:
        raise already_exists(target.name) from error
    os.unlink(source_name, dir_fd=source_folder)


def take_away(top: str, folder: int, name: str) -> str:
    """Move a folder out of sight, at once and as a whole; the name under which it is staged."""
    with opened_staging(top) as staging:
        trash = secrets.token_hex(16)
        os.rename(name, trash, src_dir_fd=folder, dst_dir_fd=staging)
        os.fsync(folder)
    return trash


def remove_staged(stop: Stop, top: str, name: str) -> None:
    """Remove a folder that was taken away, bit by bit."""
    stop.check()
    with opened_staging(top) as staging:
        _empty(stop, staging, name)


def sweep(stop: Stop, top: str) -> int:
    """Remove whatever in the staging folder no living writer holds."""
    swept = 0
    with suppress(FileNotFoundError), opened_folder(top, _STAGING) as staging:
        for name in os.listdir(staging):
            stop.check()
            swept += _sweep_one(stop, staging, name)
    return swept


def _sweep_one(stop: Stop, staging: int, name: str) -> int:
    info = look(staging, name)
    if info is None:
        return 0
    if is_folder(info):
        _empty(stop, staging, name)
        return 1
    if not visible(info):  # not ours, and in the way of nothing
        return 0
    with _locked(staging, name) as free:
        if free:
            os.unlink(name, dir_fd=staging)
        return int(free)


@contextmanager
def _locked(staging: int, name: str) -> Iterator[bool]:
    """Whether nobody else held the file; it cannot be taken while we look."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=staging)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _try_lock(file)
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_all(file: int, buffers: Sequence[bytes]) -> None:
    """Write at most `_MOST_BUFFERS` buffers, to their last byte."""
    written = os.writev(file, buffers)
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
            continue
        # The kernel took a part only: a signal, or a disk that is about to be full.
        rest = memoryview(buffer)[written:]
        written = 0
        while rest:
            rest = rest[os.write(file, rest) :]


def _empty(stop: Stop, staging: int, name: str) -> None:
    """Remove a tree of any depth with a few descriptors: folders found inside move up before they are emptied.

    Two may do this at the same time: what the other has removed is no error.
    """
    pending = [name]
    while pending:
        current = pending.pop()
        with suppress(FileNotFoundError):
            folder = os.open(
                current, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=staging
            )
            try:
                for child in os.listdir(folder):
                    stop.check()
                    with suppress(FileNotFoundError):
                        pending += _unlink_or_hoist(folder, child, staging)
            finally:
                os.close(folder)
            try:
                os.rmdir(current, dir_fd=staging)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                pending.append(current)  # an upload that was under way has just come in here


def _unlink_or_hoist(folder: int, child: str, staging: int) -> list[str]:
    try:
        os.unlink(child, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if not modes.S_ISDIR(os.stat(child, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
        hoisted = secrets.token_hex(16)
        os.rename(child, hoisted, src_dir_fd=folder, dst_dir_fd=staging)
        return [hoisted]
    return []
