"""Reaching into a folder without ever leaving it.

Every look-up starts at the connection's folder and takes one segment at a time, relative to the descriptor of
the one before and never through a symbolic link. So a link, even one swapped in while we walk, cannot lead
anywhere: the kernel refuses the step. Only regular files and folders exist for us.
"""

import errno
import os
import stat as modes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from portico import timestamps
from portico.entries import FOLDER_TYPE, Entry, guess_content_type
from portico.errors import (
    FolderNotEmpty,
    InvalidPath,
    IsAFolder,
    NotAFolder,
    NotFound,
    PorticoError,
    ProviderFailed,
    ProviderRefused,
    ProviderUnavailable,
    StorageFull,
    Unavailable,
)
from portico.paths import Path

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO would wait for its writer.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_KIND = 0o170000
"""The bits of a mode that tell files, folders and all else apart."""

_REFUSED = "The gateway may not do this in its storage folder; tell the administrator."
_ERRORS: dict[int, tuple[type[PorticoError], str]] = {
    errno.ENOENT: (NotFound, "There is no '{name}'."),
    errno.ENOTDIR: (NotAFolder, "'{name}' is a file, or lies below one, and cannot be used as a folder."),
    errno.ELOOP: (NotFound, "There is no '{name}'."),
    errno.ENXIO: (NotFound, "There is no '{name}'."),  # a socket, or a device that is not there
    errno.ENODEV: (NotFound, "There is no '{name}'."),
    errno.EISDIR: (IsAFolder, "'{name}' is a folder."),
    errno.ENOTEMPTY: (
        FolderNotEmpty,
        "'{name}' is not empty; add recursive=true to remove it with its content.",
    ),
    errno.ENAMETOOLONG: (InvalidPath, "A name is longer than the 255 bytes that a name may have."),
    errno.EILSEQ: (InvalidPath, "The storage cannot hold the name '{name}'; choose another name."),
    errno.EINVAL: (InvalidPath, "The storage cannot hold the name '{name}'; choose another name."),
    errno.ENOSPC: (StorageFull, "The storage is full; free some space and try again."),
    errno.EDQUOT: (StorageFull, "The storage's quota is used up; free some space and try again."),
    errno.EFBIG: (StorageFull, "The file is larger than the storage can hold."),
    errno.EACCES: (ProviderRefused, _REFUSED),
    errno.EPERM: (ProviderRefused, _REFUSED),
    errno.EROFS: (ProviderRefused, _REFUSED),
    errno.EMFILE: (Unavailable, "The gateway is serving too many files at once; try again in a moment."),
    errno.ENFILE: (Unavailable, "The gateway is serving too many files at once; try again in a moment."),
    errno.ENOMEM: (Unavailable, "The gateway is short of memory; try again in a moment."),
    errno.ESTALE: (ProviderUnavailable, "The storage folder is out of reach; try again in a moment."),
    errno.EIO: (ProviderFailed, "The storage reported an error; tell the administrator."),
}
_TEMPORARY = (Unavailable, ProviderUnavailable)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as error:
        kind, sentence = _ERRORS.get(
            error.errno or 0, (ProviderFailed, "The storage reported an error; tell the administrator.")
        )
        raise kind(
            sentence.format(name=path.name),
            retry_after=1 if issubclass(kind, _TEMPORARY) else None,
            cause=f"{error.strerror} (errno {error.errno}) at {path}",
        ) from error


def open_folder(top: str, path: Path, *, make: bool = False) -> int:
    """A descriptor of the folder at `path` below `top`; with `make`, missing folders are made durably."""
    descriptor = _open_top(top)
    try:
        for segment in path.segments:
            descriptor = step(descriptor, segment, make=make)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def opened_folder(top: str, path: Path, *, make: bool = False) -> Iterator[int]:
    """As `open_folder`, closed at the end."""
    descriptor = open_folder(top, path, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_way(top: str, path: Path) -> Iterator[tuple[int, bool]]:
    """The deepest folder that exists on the way to `path`, and whether it is `path` itself."""
    descriptor = _open_top(top)
    try:
        whole = True
        for segment in path.segments:
            try:
                descriptor = step(descriptor, segment)
            except FileNotFoundError:
                whole = False
                break
        yield descriptor, whole
    finally:
        os.close(descriptor)


def _open_top(top: str) -> int:
    try:
        # The administrator chose this folder; it may well be a link to where the disk is.
        return os.open(top, FOLDER_FLAGS & ~os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ProviderUnavailable(
            "The storage folder of this connection is missing; tell the administrator.",
            retry_after=30,
            cause=f"the connection's folder {top} does not exist or is not a folder",
        ) from error


def step(descriptor: int, segment: str, *, make: bool = False) -> int:
    """Trade the descriptor of a folder for that of the folder `segment` in it; on an error it stays open."""
    try:
        below = os.open(segment, FOLDER_FLAGS, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):  # another upload may be as far
            os.mkdir(segment, dir_fd=descriptor)
            os.fsync(descriptor)
        below = os.open(segment, FOLDER_FLAGS, dir_fd=descriptor)
    os.close(descriptor)
    return below


def look(descriptor: int, name: str) -> os.stat_result | None:
    """The stat of `name` in an open folder, itself and not what it may link to; None if there is nothing."""
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


def visible(info: os.stat_result | None) -> bool:
    """Whether there is a file or folder, as opposed to nothing, a link, a device, a FIFO or a socket."""
    return info is not None and (modes.S_ISREG(info.st_mode) or modes.S_ISDIR(info.st_mode))


def is_folder(info: os.stat_result) -> bool:
    return modes.S_ISDIR(info.st_mode)


@contextmanager
def found(top: str, path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """The folder that holds `path`, opened, and the stat of what is there; `NotFound` if that is nothing."""
    with opened_parent(top, path) as descriptor:
        info = look(descriptor, path.name)
        if info is None or not visible(info):
            raise NotFound(f"There is no '{path.name}'.")
        yield descriptor, info


@contextmanager
def opened_parent(top: str, path: Path) -> Iterator[int]:
    """As `opened_folder` for the parent, where a file on the way only means that `path` does not exist."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(opened_folder(top, path.parent))
        except NotADirectoryError as error:
            raise NotFound(f"There is no '{path.name}'.") from error
        yield descriptor


class OpenFile:
    """A regular file open for reading; closed when the last one who reads it, in whatever thread, lets go."""

    __slots__ = ("_descriptor", "info")

    def __init__(self, folder: int, path: Path) -> None:
        self._descriptor = os.open(path.name, _FILE_FLAGS, dir_fd=folder)
        self.info = os.fstat(self._descriptor)
        if is_folder(self.info):
            raise IsAFolder(f"'{path.name}' is a folder.")
        if not visible(self.info):
            raise NotFound(f"There is no '{path.name}'.")

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


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
    )


def entries_of(descriptor: int, names: list[str], *, folders: bool) -> list[Entry]:
    """The entries of those names in an open folder that are still folders, or still files.

    As `look`, `visible` and `entry_of` for each of them, but in one piece: a page is a thousand times this.
    """
    kind = modes.S_IFDIR if folders else modes.S_IFREG
    stat, from_epoch = os.stat, timestamps.from_epoch
    entries = []
    for name in names:
        try:
            info = stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if info.st_mode & _KIND != kind:
            continue
        modified = from_epoch(info.st_mtime_ns // 1_000_000)
        if folders:
            entries.append(Entry(name, True, None, modified, FOLDER_TYPE))
        else:
            entries.append(Entry(name, False, info.st_size, modified, guess_content_type(name)))
    return entries


def etag_of(info: os.stat_result) -> str:
    return f"{info.st_ino:x}-{info.st_mtime_ns:x}-{info.st_size:x}"
