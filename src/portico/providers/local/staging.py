"""The staging folder: files that are being written, and folders that are being removed.

It is hidden at the top of the connection's folder, so that a rename moves between the two. Several machines may share
it. A staged file is named after its writer and locked by it, but the locks of one machine may mean nothing on another:
the sweep removes a file at once only if its writer ran on this machine and has ended, and any other file only if it was
not written to for a day. A running upload writes every few minutes.

The file of a resumable upload outlives its writers. Its name is part of the upload's state, by which it is removed; the
sweep removes it only long after any upload has expired.
"""

import errno
import fcntl
import os
import secrets
import stat as modes
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from zlib import crc32

from portico.model.errors import ProviderRefused, already_exists, cannot_replace_folder, service_unavailable
from portico.model.paths import RESERVED_PREFIX, Path
from portico.model.reach import folded
from portico.providers.local.confined_fs import Volume, is_folder, lstat, open_folder, opened_folder, visible
from portico.providers.local.threads import CancelToken
from portico.runtime import processes
from portico.runtime.processes import ProcessState
from portico.runtime.progress_counter import count

_STAGING = Path((f"{RESERVED_PREFIX}staging",))
_LOCKS = f"../{RESERVED_PREFIX}locks"
"""Beside the staging folder."""
_FLOCK = "hhqqi4x"
"""The kernel's structure of a lock that belongs to an open file: kind, whence, start, length, process."""
ABANDONED_SECONDS = 24 * 3600
"""Without a write, after which a staged file of another machine has no writer any more. A running upload writes far more
often (`uploads.RENEWAL_SECONDS`), so it survives a frozen machine, a hung file server and a clock that is corrected."""
LOCK_WAIT_SECONDS = 10.0
"""How long an upload waits, in a thread, for those that check and replace their targets, and for a process that was
killed: its locks last until its last write is done. A replacement takes microseconds, or, if the old file goes to the
trash, as long as the disk needs to make its link durable."""
_EXPIRED_SECONDS = 60 * 24 * 3600
"""Without a change, after which the file of a resumable upload is removed even if its state was lost."""
_RESUMABLE = "upload-"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF)
"""From file systems that have no locks, or not for a descriptor that only reads."""

NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
"""From file systems that have no hard links, or no more for this file."""


def check_same_disk(folder: int, staging: int, top: Volume, path: Path) -> None:
    """`ProviderRefused` if a staged file cannot be renamed into the folder."""
    if os.fstat(folder).st_dev != os.fstat(staging).st_dev:
        raise ProviderRefused(
            "This folder is on a different disk than its connection. Tell your administrator.",
            cause=f"{path} is on a different file system than {top.path}: add a separate connection for it",
        )


def open_staging(top: Volume) -> int:
    return open_folder(top, _STAGING, make=True)


@contextmanager
def opened_staging(top: Volume) -> Iterator[int]:
    with opened_folder(top, _STAGING, make=True) as staging:
        yield staging


@contextmanager
def new_file(staging: int) -> Iterator[tuple[str, int]]:
    """A staged file by name and descriptor; removed at the end unless it was renamed."""
    name, file = create_staged(staging)
    try:
        yield name, file
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=staging)
        os.close(file)


def create_staged(staging: int) -> tuple[str, int]:
    """Create a file, and lock it if the file system has locks; returns its name and descriptor."""
    name = f"{processes.name_of(os.getpid())}-{secrets.token_hex(8)}"
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=staging)
    _is_locked_by_another(file)
    return name, file


def resumable_name() -> str:
    return f"{_RESUMABLE}{secrets.token_hex(16)}"


def open_resumable(staging: int, name: str, *, create: bool) -> int:
    """The locked file of a resumable upload; `ProviderUnavailable` if another process goes on writing it."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    file = os.open(name, flags, 0o666, dir_fd=staging)
    try:
        _wait_for(lambda: not _is_locked_by_another(file), f"writes the staged file {name}")
    except BaseException:
        os.close(file)
        raise
    return file


def check_replaceable(info: os.stat_result | None, target: Path, *, replace: bool) -> None:
    """Raise unless a file may be placed at `target`, where `info` is what exists there."""
    if info is None:
        return
    if is_folder(info):
        raise cannot_replace_folder(target.name)
    if not replace or not visible(info):
        raise already_exists(target.name)


def move_into(source_folder: int, source_name: str, folder: int, target: Path, *, replace: bool) -> None:
    """Rename a file to `target`, atomically; without `replace`, only one of several callers succeeds."""
    if replace:
        os.rename(source_name, target.name, src_dir_fd=source_folder, dst_dir_fd=folder)
        return
    try:
        os.link(source_name, target.name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError as error:
        raise already_exists(target.name) from error
    with suppress(FileNotFoundError):  # it has its new name
        os.unlink(source_name, dir_fd=source_folder)


def commit_staged(staging: int, name: str, folder: int, target: Path, *, replace: bool) -> None:
    """`move_into` of a staged file; `ProviderUnavailable` if that is gone, which is no fault of the client."""
    try:
        move_into(staging, name, folder, target, replace=replace)
    except FileNotFoundError as error:
        if lstat(staging, name) is not None:
            raise  # the folder is gone
        raise service_unavailable(f"the staged file {name} for {target} was removed", 1) from error


def link_replaced(folder: int, name: str, trash: int, kept_name: str) -> bool:
    """Link a file that is about to be replaced into the trash, durably; False if the file system has no links."""
    with suppress(FileNotFoundError):  # an earlier attempt of the same commit may have kept another file
        os.unlink(kept_name, dir_fd=trash)
    try:
        os.link(name, kept_name, src_dir_fd=folder, dst_dir_fd=trash, follow_symlinks=False)
    except OSError as error:
        if error.errno in NO_LINKS:
            return False
        raise
    os.fsync(trash)
    return True


@contextmanager
def commit_lock(staging: int, folder: int, name: str, *, alone: bool) -> Iterator[None]:
    """Held from the check of a target until it is replaced; `alone` if the outcome depends on the file that is there.

    A target is one byte of a file of locks, so that others do not wait. Where the file system has no locks, nothing is held.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    locks = os.open(_LOCKS, flags, 0o666, dir_fd=staging)
    try:
        target = crc32(f"{os.fstat(folder).st_ino}/{folded(name)}".encode("utf-8", "surrogateescape"))
        kind = fcntl.F_WRLCK if alone else fcntl.F_RDLCK
        lock = struct.pack(_FLOCK, kind, os.SEEK_SET, target, 1, 0)
        _wait_for(lambda: _locked_byte(locks, lock), f"replaces {name}")
        yield
    finally:
        os.close(locks)  # and so releases the lock


def _wait_for(is_locked: Callable[[], bool], other: str) -> None:
    """Return when this process has the lock; `ProviderUnavailable` if another one, suspended perhaps, keeps it."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while not is_locked():
        if time.monotonic() >= deadline:
            raise service_unavailable(f"another process {other}", 1)
        time.sleep(0.001)


def _locked_byte(locks: int, lock: bytes) -> bool:
    try:
        fcntl.fcntl(locks, fcntl.F_OFD_SETLK, lock)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # the file system has none
        pass
    return True


def move_to_staging(top: Volume, folder: int, name: str) -> str:
    """Move a folder to the staging folder by one rename; returns its name there."""
    with opened_staging(top) as staging:
        trash = secrets.token_hex(16)
        os.rename(name, trash, src_dir_fd=folder, dst_dir_fd=staging)
        os.fsync(folder)
    return trash


def remove_staged(token: CancelToken, top: Volume, name: str) -> None:
    """Remove a folder that `move_to_staging` moved here, with its content."""
    token.check()
    with opened_staging(top) as staging:
        _empty(token, staging, name)


def sweep(token: CancelToken, top: Volume) -> int:
    """Remove what no running writer needs; returns how many there were."""
    swept = 0
    with suppress(FileNotFoundError), opened_folder(top, _STAGING) as staging:
        clock = _Clock(staging)
        for name in os.listdir(staging):
            token.check()
            swept += _sweep_one(token, staging, name, clock)
    return swept


def _sweep_one(token: CancelToken, staging: int, name: str, clock: "_Clock") -> int:
    info = lstat(staging, name)
    if info is None:
        return 0
    if is_folder(info):
        _empty(token, staging, name)
        return 1
    if not visible(info):  # the gateway did not create it
        return 0
    if not _is_abandoned(name, info, clock):
        return 0
    with suppress(FileNotFoundError), _opened_to_lock(staging, name) as file:
        # It may have been written to since: the lock comes first.
        if not _is_locked_by_another(file) and _is_abandoned(name, os.fstat(file), clock):
            os.unlink(name, dir_fd=staging)
            return 1
    return 0


def _is_abandoned(name: str, info: os.stat_result, clock: "_Clock") -> bool:
    if name.startswith(_RESUMABLE):  # its client may have set the time of its content
        return clock.now_ns() - info.st_ctime_ns > _EXPIRED_SECONDS * 10**9
    if processes.state_of(name) is ProcessState.ENDED:
        return True
    # Without any lock, this is all that is known of a writer on another machine.
    return clock.now_ns() - info.st_mtime_ns > ABANDONED_SECONDS * 10**9


class _Clock:
    """The clock of the file system: that of a file server may differ from this machine's."""

    def __init__(self, staging: int) -> None:
        self._staging = staging
        self._offset_ns: int | None = None

    def now_ns(self) -> int:
        if self._offset_ns is None:
            with new_file(self._staging) as (_, file):
                os.utime(file)
                self._offset_ns = os.fstat(file).st_mtime_ns - time.monotonic_ns()
        return time.monotonic_ns() + self._offset_ns


@contextmanager
def _opened_to_lock(staging: int, name: str) -> Iterator[int]:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # NFS has exclusive locks only for descriptors that may write.
        file = os.open(name, os.O_RDWR | flags, dir_fd=staging)
    except PermissionError:  # another user's
        file = os.open(name, os.O_RDONLY | flags, dir_fd=staging)
    try:
        yield file
    finally:
        os.close(file)


def _is_locked_by_another(file: int) -> bool:
    """Lock the file. False if that succeeds, and also if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    return False


def write_all(file: int, buffers: Sequence[bytes]) -> None:
    """Write buffers completely: fewer than the kernel's IOV_MAX."""
    written = os.writev(file, buffers)
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
            continue
        # A partial write: a signal, or a disk that is almost full.
        rest = memoryview(buffer)[written:]
        written = 0
        while rest:
            rest = rest[os.write(file, rest) :]


def _empty(token: CancelToken, staging: int, name: str) -> None:
    """Remove a tree of any depth with a few descriptors: folders inside are moved up before they are emptied.

    Two callers may do this at the same time: what the other has removed is no error.
    """
    pending = [name]
    while pending:
        current = pending.pop()
        with suppress(FileNotFoundError):
            folder = os.open(current, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=staging)
            try:
                for child in os.listdir(folder):
                    token.check()
                    with suppress(FileNotFoundError):
                        pending += _unlink_or_hoist(folder, child, staging)
            finally:
                os.close(folder)
            try:
                os.rmdir(current, dir_fd=staging)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                pending.append(current)  # a running upload has just been committed here


def _unlink_or_hoist(folder: int, child: str, staging: int) -> list[str]:
    try:
        os.unlink(child, dir_fd=folder)
        count()
    except (IsADirectoryError, PermissionError):
        if not modes.S_ISDIR(os.stat(child, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
        hoisted = secrets.token_hex(16)
        os.rename(child, hoisted, src_dir_fd=folder, dst_dir_fd=staging)
        return [hoisted]
    return []
