"""A file system that is confined to one folder.

Every path is opened from the connection's folder down, one segment at a time, relative to the descriptor of the
segment before and never through a symbolic link. So a link cannot lead outside, even if it is swapped in meanwhile:
the kernel refuses to follow it. Only regular files and folders are visible.
"""

import os
import stat as modes
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import compress, repeat

from portico.model import timestamps
from portico.model.entries import FOLDER_TYPE, Entry, guess_content_type, guess_content_types
from portico.model.errors import FolderUnusable, not_found
from portico.model.paths import Path
from portico.providers.folders import volume_id
from portico.providers.local import stats

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MARKS = 1_000_000
"""Nanoseconds in a millisecond, which is what Portico shows of a file's time."""
_KIND = 0o170000
"""The bits of a mode that hold the file type."""
_TRUSTED_SECONDS = 1.0
"""How long a folder that is seen again is not read for its id: a device number may be reused by another mount."""


class Volume:
    """The connection's folder, which is not mistaken for another one at the same path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._expected_id: str | None = None
        self._verified = (-1, -1, 0.0)
        """The device and inode of the folder that had the id, and until when that is trusted."""

    def expect(self, expected_id: str | None) -> None:
        """From now on, only a folder with this volume id is opened; with None, any whose id is not damaged."""
        if expected_id != self._expected_id:
            self._expected_id = expected_id
            self._verified = (-1, -1, 0.0)

    def ignores_case(self) -> bool:
        """As far as its volume id, which is a file, tells."""
        descriptor = self.open()
        try:
            os.stat(volume_id.FILE.upper(), dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        finally:
            os.close(descriptor)
        return True

    def open(self) -> int:
        """A descriptor of the folder; `FolderUnusable` if it is missing, or does not have the expected id."""
        try:
            # The administrator chose this folder, so it may be a symbolic link.
            descriptor = os.open(self.path, FOLDER_FLAGS & ~os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise unusable(self.path, "doesn't exist or is not a folder", "is missing") from error
        try:
            self._verify(descriptor, self._expected_id)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _verify(self, descriptor: int, expected_id: str | None) -> None:
        info, now = os.fstat(descriptor), time.monotonic()
        device, inode, until = self._verified
        if now < until and info.st_ino == inode and info.st_dev == device:
            return
        if problem := volume_id.problem(descriptor, expected_id):
            raise unusable(self.path, problem)
        self._verified = (info.st_dev, info.st_ino, now + _TRUSTED_SECONDS)


def unusable(path: str, problem: str, in_short: str = "can't be used") -> FolderUnusable:
    error = FolderUnusable(
        f"The storage folder {in_short}. Tell your administrator.",
        retry_after=30,
        cause=f"the connection's folder {path} {problem}",
    )
    error.problem = problem
    return error


def open_folder(top: Volume, path: Path, *, make: bool = False) -> int:
    """Open the folder at `path` below `top`; with `make`, missing folders are created durably."""
    descriptor = top.open()
    try:
        for segment in path.segments:
            descriptor = open_child(descriptor, segment, make=make)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def opened_folder(top: Volume, path: Path, *, make: bool = False) -> Iterator[int]:
    descriptor = open_folder(top, path, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_deepest(top: Volume, path: Path) -> Iterator[tuple[int, int]]:
    """The deepest existing folder of `path`, and how many segments of `path` lead to it."""
    descriptor = top.open()
    try:
        depth = 0
        for segment in path.segments:
            try:
                descriptor = open_child(descriptor, segment)
            except FileNotFoundError:
                break
            depth += 1
        yield descriptor, depth
    finally:
        os.close(descriptor)


def open_child(descriptor: int, segment: str, *, make: bool = False) -> int:
    """Open the folder `segment` in an open folder and close that one; on an error it stays open."""
    try:
        below = os.open(segment, FOLDER_FLAGS, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):  # another upload created it
            os.mkdir(segment, dir_fd=descriptor)
            os.fsync(descriptor)
        below = os.open(segment, FOLDER_FLAGS, dir_fd=descriptor)
    os.close(descriptor)
    return below


def lstat(descriptor: int, name: str) -> os.stat_result | None:
    """`lstat` of `name` in an open folder; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


def visible(info: os.stat_result | None) -> bool:
    """Whether it is a file or a folder: not missing, and no link, device, FIFO or socket."""
    return info is not None and (modes.S_ISREG(info.st_mode) or modes.S_ISDIR(info.st_mode))


def is_folder(info: os.stat_result) -> bool:
    return modes.S_ISDIR(info.st_mode)


@contextmanager
def found(top: Volume, path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """The open parent folder and the stat of `path`; `NotFound` if it is not visible."""
    with opened_parent(top, path) as descriptor:
        info = lstat(descriptor, path.name)
        if info is None or not visible(info):
            raise not_found(path.name)
        yield descriptor, info


@contextmanager
def opened_parent(top: Volume, path: Path) -> Iterator[int]:
    """`opened_folder` of the parent, where an ancestor that is a file means `NotFound`."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(opened_folder(top, path.parent))
        except NotADirectoryError as error:
            raise not_found(path.name) from error
        yield descriptor


def entry_of(name: str, info: os.stat_result, *, with_etag: bool = False) -> Entry:
    modified = timestamps.from_epoch(info.st_mtime_ns // 1_000_000)
    if is_folder(info):
        return Entry(name, True, last_modified=modified, content_type=FOLDER_TYPE)
    return Entry(
        name,
        False,
        size=info.st_size,
        last_modified=modified,
        content_type=guess_content_type(name),
        etag=etag_of(info) if with_etag else None,
        written=timestamps.from_epoch(info.st_ctime_ns // 1_000_000) if with_etag else None,
        content_id=f"{info.st_ino:x}-{info.st_mtime_ns:x}-{info.st_size:x}" if with_etag else None,
    )


def entries_of(descriptor: int, names: list[str], *, folders: bool) -> list[Entry]:
    """The entries of these names in an open folder; names that are no longer folders, or files, are left out.

    The same as `lstat`, `visible` and `entry_of` for each name, but column by column: a page has a thousand of them.
    """
    found, sizes, modified = stats.stat_names(descriptor, names)
    kind = modes.S_IFDIR if folders else modes.S_IFREG
    if any(mode & _KIND != kind for mode in set(found)):
        kept = [mode & _KIND == kind for mode in found]
        names, sizes, modified = (
            list(compress(names, kept)),
            list(compress(sizes, kept)),
            list(compress(modified, kept)),
        )
    times = timestamps.from_epochs(modified)
    if folders:
        return [Entry(name, True, None, time, FOLDER_TYPE) for name, time in zip(names, times, strict=True)]
    return list(map(Entry, names, repeat(False), sizes, times, guess_content_types(names)))


def set_modified(file: int, modified: datetime | None, mark: str | None) -> None:
    """Give an open file the time that a client wants it to have, as far as the file system can hold it, and a mark.

    The mark is in the nanoseconds below the millisecond; if the client gave the time, in those of the last access.
    """
    if modified is None and mark is None:
        return
    accessed = time.time_ns()
    if mark is not None:
        accessed = accessed // _MARKS * _MARKS + _digits(mark)
    nanoseconds = accessed if modified is None else (modified - _EPOCH) // timedelta(microseconds=1) * 1000
    with suppress(OSError, OverflowError):
        os.utime(file, ns=(accessed, nanoseconds))


def has_mark(info: os.stat_result, mark: str) -> bool:
    if info.st_mtime_ns % _MARKS == _digits(mark):
        return True
    # What was written in place since has a later time, and the same time of its last access.
    return info.st_mtime_ns < info.st_atime_ns and info.st_atime_ns % _MARKS == _digits(mark)


def _digits(mark: str) -> int:
    return int.from_bytes(sha256(mark.encode()).digest()) % _MARKS


def etag_of(info: os.stat_result) -> str:
    # The time of the last change of the file's metadata, too: clients can set the time of its content.
    return f"{info.st_ino:x}-{info.st_mtime_ns:x}-{info.st_ctime_ns:x}-{info.st_size:x}"
