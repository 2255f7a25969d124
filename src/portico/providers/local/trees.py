"""Copying and moving files and whole folders. All of it blocks; it runs in a thread."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from portico.errors import NotFound, NotPossible, PorticoError, already_exists
from portico.paths import Path, name_flaw
from portico.providers.local.descents import Descent, go_through
from portico.providers.local.descriptors import (
    OpenFile,
    found,
    is_folder,
    look,
    opened_folder,
    translated,
    visible,
)
from portico.providers.local.staging import (
    StagedFile,
    check_replaceable,
    check_same_disk,
    new_file,
    opened_staging,
    place,
    write_all,
)
from portico.providers.local.stops import Stop

_PIECE = 16 * 2**20
"""Bytes that are copied before somebody may call it off."""


def copy(stop: Stop, top: str, source: Path, target: Path, replace: bool) -> None:
    stop.check()
    with found(top, source) as (_, info):
        folder = is_folder(info)
    if folder:
        _claim_folder(top, target, replace)
        _copy_tree(stop, top, source, target, replace)
    else:
        _copy_file(stop, top, source, target, replace)


def rename(top: str, source: Path, target: Path, replace: bool) -> bool:
    """Move by a rename; False if there is a folder with content at the target that may be replaced: `merge` with it."""
    with found(top, source) as (source_folder, info):
        if is_folder(info):
            _claim_folder(top, target, replace)
        with opened_folder(top, target.parent, make=True) as target_folder:
            if not is_folder(info):
                existing = look(target_folder, target.name)
                check_replaceable(existing, target, replace=replace)
                if existing and os.path.samestat(
                    existing, info
                ):  # two names of one file: a rename leaves both
                    os.unlink(source.name, dir_fd=source_folder)
                else:
                    place(source_folder, source.name, target_folder, target, replace=replace)
            elif not _rename_folder(source_folder, source.name, target_folder, target.name):
                if not replace:  # somebody has put something into the folder that we made
                    raise already_exists(target.name)
                return False
            os.fsync(target_folder)
        os.fsync(source_folder)
    return True


def merge(stop: Stop, top: str, source: Path, target: Path) -> None:
    """Move what is in one folder into another: each file, and each folder that the other has not, by one rename.

    So nothing is copied, and what comes into the source meanwhile stays there.
    """
    stop.check()
    with Descent(top, source) as here, Descent(top, target) as there:
        go_through(stop, here, there, lambda: _meeting(here.folder, there.folder))
    moved = 0

    def visit() -> list[str]:
        nonlocal moved
        shared = []
        for name, info in _content(here.folder):
            stop.check()
            with suppress(FileNotFoundError):  # somebody removed it meanwhile
                if not is_folder(info):
                    check_replaceable(look(there.folder, name), Path((name,)), replace=True)
                    place(here.folder, name, there.folder, Path((name,)), replace=True)
                elif not _rename_folder(here.folder, name, there.folder, name):
                    shared.append(name)
                    continue
                moved += 1
        os.fsync(there.folder)
        os.fsync(here.folder)
        return shared

    def leave(name: str) -> None:
        with suppress(OSError):  # something new is in it
            os.rmdir(name, dir_fd=here.folder)

    with _counting(lambda: f"{moved} files and folders were moved", target):
        with Descent(top, source) as here, Descent(top, target) as there:
            go_through(stop, here, there, visit, leave=leave)
        with opened_folder(top, source.parent) as folder:
            with suppress(OSError):
                os.rmdir(source.name, dir_fd=folder)
            os.fsync(folder)


def _meeting(here: int, there: int) -> list[str]:
    """The folders that both folders have; fails where a file and a folder would meet."""
    shared = []
    for name, info in _content(here):
        other = look(there, name)
        if other is None:
            continue
        if not is_folder(info):
            check_replaceable(other, Path((name,)), replace=True)
        elif is_folder(other):
            shared.append(name)
        else:
            raise already_exists(name)
    return shared


def _content(folder: int) -> list[tuple[str, os.stat_result]]:
    names = [name for name in os.listdir(folder) if name_flaw(name) is None]
    return [(name, info) for name in names if (info := look(folder, name)) and visible(info)]


def _rename_folder(source_folder: int, source: str, target_folder: int, target: str) -> bool:
    """Whether a rename did it; not if there is a folder with content at the target, to merge with."""
    try:
        os.rename(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _claim_folder(top: str, target: Path, replace: bool) -> None:
    """Make the target folder, if it may not be there yet: of two who want that, one fails."""
    if replace:
        _check_folder_target(top, target)
        return
    with opened_folder(top, target.parent, make=True) as folder:
        try:
            os.mkdir(target.name, dir_fd=folder)
        except FileExistsError:
            raise already_exists(target.name) from None


def _check_folder_target(top: str, target: Path) -> None:
    try:
        with opened_folder(top, target.parent) as folder:
            info = look(folder, target.name)
    except FileNotFoundError:
        return
    if info is not None and not is_folder(info):
        raise already_exists(target.name)


def _copy_tree(stop: Stop, top: str, source: Path, target: Path, replace: bool) -> None:
    copied = 0

    def visit() -> list[str]:
        nonlocal copied
        check_same_disk(there.folder, staging, top, target)
        folders = []
        for name, info in _content(here.folder):
            stop.check()
            if is_folder(info):
                folders.append(name)
            else:
                with suppress(FileNotFoundError, NotFound):  # somebody removed it meanwhile
                    _copy_within(stop, here.folder, there.folder, name, staging, replace)
                    copied += 1
        os.fsync(there.folder)
        return folders

    with (
        _counting(lambda: f"{copied} files were copied", target),
        opened_staging(top) as staging,
        Descent(top, source) as here,
        Descent(top, target, make=True) as there,
    ):
        go_through(stop, here, there, visit, make=True)


@contextmanager
def _counting(done: Callable[[], str], path: Path) -> Iterator[None]:
    """Let an error say how much was done before it."""
    try:
        with translated(path):
            yield
    except PorticoError as error:
        raise error.after(done()) from error


def _copy_within(stop: Stop, here: int, there: int, name: str, staging: int, replace: bool) -> None:
    """Copy a file from one open folder to another, whole or not at all; that folder is synced by the caller."""
    file = OpenFile(here, Path((name,)))
    check_replaceable(look(there, name), Path((name,)), replace=replace)
    with new_file(staging) as (staged, descriptor):
        _copy_bytes(stop, file.fileno(), descriptor)
        os.fsync(descriptor)
        place(staging, staged, there, Path((name,)), replace=replace)


def _copy_file(stop: Stop, top: str, source: Path, target: Path, replace: bool) -> None:
    if source == target:
        raise NotPossible("A file cannot be copied onto itself; choose another target.")
    staged = StagedFile(top, target, replace=replace)
    try:
        with opened_folder(top, source.parent) as folder:
            file = OpenFile(folder, source)
        _copy_bytes(stop, file.fileno(), staged.open())
        staged.commit()
    finally:
        staged.discard()


def _copy_bytes(stop: Stop, source: int, target: int) -> None:
    try:
        while os.copy_file_range(source, target, _PIECE):
            stop.check()
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        while piece := os.read(source, 2**20):
            stop.check()
            write_all(target, [piece])
