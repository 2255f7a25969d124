"""Copying, moving and deleting files and whole folders. All of it blocks; it runs in a thread."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

from portico.model.entries import Entry
from portico.model.errors import NotFound, NotPossible, already_exists, cannot_replace_folder, counting
from portico.model.paths import Path, name_flaw
from portico.providers.contract.provider import DoesNotFitInTrash
from portico.providers.contract.uploads import KeptFile
from portico.providers.local.confined_fs import (
    FOLDER_FLAGS,
    Volume,
    entry_of,
    found,
    is_folder,
    lstat,
    open_child,
    open_folder,
    opened_deepest,
    opened_folder,
    visible,
)
from portico.providers.local.downloads import OpenFile
from portico.providers.local.errors import translated
from portico.providers.local.staging import (
    check_replaceable,
    check_same_disk,
    commit_lock,
    commit_staged,
    link_replaced,
    move_into,
    move_to_staging,
    new_file,
    opened_staging,
    write_all,
)
from portico.providers.local.threads import CancelToken
from portico.providers.local.uploads import StagedFile, keep_replaced
from portico.runtime.progress_counter import count


class Traversal:
    """An open folder that can be moved down into its folders and up again.

    The way up is `..`, compared with the folder that the way down started from: if the folder was moved meanwhile,
    `..` is another folder, and `up` fails.
    """

    def __init__(self, top: Volume, path: Path, *, make: bool = False) -> None:
        self.folder = open_folder(top, path, make=make)
        self._above: list[tuple[int, int]] = []

    def down(self, name: str, *, make: bool = False) -> None:
        info = os.fstat(self.folder)
        self.folder = open_child(self.folder, name, make=make)
        self._above.append((info.st_dev, info.st_ino))

    def up(self) -> None:
        above = os.open("..", FOLDER_FLAGS, dir_fd=self.folder)
        info = os.fstat(above)
        if (info.st_dev, info.st_ino) != self._above.pop():
            os.close(above)
            raise NotFound("A folder was moved during the operation. List it and try again.")
        os.close(self.folder)
        self.folder = above

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.folder)


def traverse(
    token: CancelToken,
    here: Traversal,
    there: Traversal,
    visit: Callable[[], Iterable[str]],
    *,
    make: bool = False,
    leave: Callable[[str], None] | None = None,
) -> None:
    """Visit two trees side by side: `visit` does the work for the current folders and returns the names to enter.

    `leave` is called with a folder's name after all inside it is done. A folder that has gone from `here` is skipped;
    with `make`, one that is missing from `there` is created.
    """
    pending = [iter(visit())]
    names: list[str] = []
    while pending:
        token.check()
        name = next(pending[-1], None)
        if name is not None:
            if _enter(here, there, name, make=make):
                names.append(name)
                pending.append(iter(visit()))
            continue
        pending.pop()
        if names:
            here.up()
            there.up()
            if leave:
                leave(names[-1])
            names.pop()


def _enter(here: Traversal, there: Traversal, name: str, *, make: bool) -> bool:
    try:
        here.down(name)
    except (FileNotFoundError, NotADirectoryError):
        return False  # removed meanwhile
    try:
        there.down(name, make=make)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise already_exists(name) from error
        raise
    return True


_CHUNK = 16 * 2**20
"""Bytes that are copied between two checks for cancellation."""


class TakesLong(Exception):
    """What is to be copied may take long. Nothing was done."""


def copy(
    token: CancelToken,
    top: Volume,
    source: Path,
    target: Path,
    replace: bool,
    kept: KeptFile | None = None,
    at_most: int | None = None,
) -> Entry | None:
    """What is at the target then; None for a folder that was merged. With `at_most`, `TakesLong` for a folder, or a
    file with more bytes."""
    token.check()
    with found(top, source) as (_, info):
        folder = is_folder(info)
    if at_most is not None and (folder or info.st_size > at_most):
        raise TakesLong
    if not folder:
        return _copy_file(token, top, source, target, replace, kept)
    with _made_parent(top, target) as (_, made):
        merges = not _claim_folder(top, target, replace)
    _copy_tree(token, top, source, target, replace)
    if merges:
        return None
    with found(top, target) as (_, info):
        return _arrived(target, info, made)


@contextmanager
def _made_parent(top: Volume, target: Path) -> Iterator[tuple[int, int]]:
    """The open folder above a target, which is made if it is missing, and how many folders were made."""
    missing = 0
    try:
        folder = open_folder(top, target.parent)
    except FileNotFoundError:
        with opened_deepest(top, target.parent) as (_, depth):
            missing = len(target.parent.segments) - depth
        folder = open_folder(top, target.parent, make=True)
    try:
        yield folder, missing
    finally:
        os.close(folder)


def _arrived(target: Path, info: os.stat_result, made_folders: int) -> Entry:
    entry = entry_of(target.name, info, with_etag=True)
    entry.made_folders = made_folders
    return entry


def delete(top: Volume, path: Path, recursive: bool) -> str | None:
    """Delete a file or a folder; of a folder with content, the name under which it is staged for removal."""
    with found(top, path) as (folder, info):
        if is_folder(info) and recursive:
            return move_to_staging(top, folder, path.name)
        if is_folder(info):
            os.rmdir(path.name, dir_fd=folder)
        else:
            os.unlink(path.name, dir_fd=folder)
        os.fsync(folder)
    return None


def move_to_trash(top: Volume, path: Path, place: Path) -> None:
    """One rename, whatever it holds. `DoesNotFitInTrash` if it is on another disk."""
    with found(top, path) as (folder, _), opened_folder(top, place.parent, make=True) as trash:
        try:
            os.rename(path.name, place.name, src_dir_fd=folder, dst_dir_fd=trash)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise DoesNotFitInTrash from error
            raise
        os.fsync(trash)
        os.fsync(folder)


def link(top: Volume, path: Path, place: Path) -> bool:
    """Give a file one more name; False if the file system cannot do that."""
    with found(top, path) as (folder, info):
        if is_folder(info):
            raise cannot_replace_folder(path.name)
        with opened_folder(top, place.parent, make=True) as trash:
            return link_replaced(folder, path.name, trash, place.name)


def rename(top: Volume, source: Path, target: Path, replace: bool, kept: KeptFile | None = None) -> Entry | None:
    """Move by renaming; what has arrived. None if the target is a folder with content that may be replaced: then call
    `merge`."""
    with found(top, source) as (source_folder, info), _made_parent(top, target) as (target_folder, made):
        if is_folder(info):
            _claim_folder(top, target, replace)
        else:
            with ExitStack() as stack:
                if kept:  # while this is held, no upload takes the place of the file that is kept
                    staging = stack.enter_context(opened_staging(top))
                    stack.enter_context(commit_lock(staging, target_folder, target.name, alone=True))
                existing = lstat(target_folder, target.name)
                check_replaceable(existing, target, replace=replace)
                if existing and os.path.samestat(existing, info):
                    # Two links to one file: a rename would leave both.
                    os.unlink(source.name, dir_fd=source_folder)
                else:
                    if existing and kept:
                        keep_replaced(top, kept, target_folder, target.name)
                    move_into(source_folder, source.name, target_folder, target, replace=replace)
        if is_folder(info) and not _rename_folder(source_folder, source.name, target_folder, target.name):
            if not replace:  # something was put into the folder that was just created
                raise already_exists(target.name)
            return None
        arrived = lstat(target_folder, target.name)
        os.fsync(target_folder)
        if not os.path.sameopenfile(source_folder, target_folder):
            os.fsync(source_folder)
    return _arrived(target, arrived or info, made)  # it may have been moved on meanwhile


def merge(token: CancelToken, top: Volume, source: Path, target: Path) -> None:
    """Move the content of one folder into another by renames. What is added to the source meanwhile stays there."""
    token.check()
    with Traversal(top, source) as here, Traversal(top, target) as there:
        traverse(token, here, there, lambda: _shared_folders(here.folder, there.folder))
    moved = 0

    def visit() -> list[str]:
        nonlocal moved
        shared = []
        for name, info in _content(here.folder):
            token.check()
            with _unless_removed(here.folder, name):
                if not is_folder(info):
                    check_replaceable(lstat(there.folder, name), Path((name,)), replace=True)
                    move_into(here.folder, name, there.folder, Path((name,)), replace=True)
                elif not _rename_folder(here.folder, name, there.folder, name):
                    shared.append(name)
                    continue
                moved += 1
                count()
        os.fsync(there.folder)
        os.fsync(here.folder)
        return shared

    with counting(lambda: f"{moved} files and folders were moved"), translated(target):
        with Traversal(top, source) as here, Traversal(top, target) as there:
            traverse(token, here, there, visit, leave=lambda name: _remove_emptied(here.folder, name))
        with opened_folder(top, source.parent) as folder:
            _remove_emptied(folder, source.name)
            os.fsync(folder)


@contextmanager
def _unless_removed(folder: int, name: str) -> Iterator[None]:
    """Around a change of a file that may be removed meanwhile. A file that is still there is not done with."""
    try:
        yield
    except (FileNotFoundError, NotFound):
        if lstat(folder, name) is not None:
            raise


def _remove_emptied(folder: int, name: str) -> None:
    """Remove a folder whose content was moved, unless it has new content."""
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def _shared_folders(here: int, there: int) -> list[str]:
    """The names of folders on both sides; fails where a file and a folder have the same name."""
    shared = []
    for name, info in _content(here):
        other = lstat(there, name)
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
    return [(name, info) for name in names if (info := lstat(folder, name)) and visible(info)]


def _rename_folder(source_folder: int, source: str, target_folder: int, target: str) -> bool:
    """Rename; False if there is a folder with content at the target."""
    try:
        os.rename(source, target, src_dir_fd=source_folder, dst_dir_fd=target_folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _claim_folder(top: Volume, target: Path, replace: bool) -> bool:
    """Create the target folder unless it may exist: of two callers, one fails. Whether there was none."""
    if replace:
        info = None
        with suppress(FileNotFoundError), opened_folder(top, target.parent) as folder:
            info = lstat(folder, target.name)
            if info is not None and not is_folder(info):
                raise already_exists(target.name)
        return info is None
    with opened_folder(top, target.parent, make=True) as folder:
        try:
            os.mkdir(target.name, dir_fd=folder)
        except FileExistsError:
            raise already_exists(target.name) from None
    return True


def _copy_tree(token: CancelToken, top: Volume, source: Path, target: Path, replace: bool) -> None:
    copied = 0

    def visit() -> list[str]:
        nonlocal copied
        check_same_disk(there.folder, staging, top, target)
        folders = []
        for name, info in _content(here.folder):
            token.check()
            if is_folder(info):
                folders.append(name)
            else:
                with _unless_removed(here.folder, name):
                    check_replaceable(lstat(there.folder, name), Path((name,)), replace=replace)
                    with OpenFile(here.folder, Path((name,))) as file, new_file(staging) as (staged, descriptor):
                        _copy_content(token, file.fileno(), descriptor)
                        os.fsync(descriptor)
                        commit_staged(staging, staged, there.folder, Path((name,)), replace=replace)
                    copied += 1
                    count()
        os.fsync(there.folder)
        return folders

    with (
        counting(lambda: f"{copied} files were copied"),
        translated(target),
        opened_staging(top) as staging,
        Traversal(top, source) as here,
        Traversal(top, target, make=True) as there,
    ):
        traverse(token, here, there, visit, make=True)


def _copy_file(
    token: CancelToken, top: Volume, source: Path, target: Path, replace: bool, kept: KeptFile | None
) -> Entry:
    if source == target:
        raise NotPossible("A file can't be copied onto itself. Choose another target.")
    staged = StagedFile(top, target, replace=replace, kept=kept, alone=kept is not None)
    try:
        with opened_folder(top, source.parent) as folder, OpenFile(folder, source) as file:
            _copy_content(token, file.fileno(), staged.open())
        arrived = staged.commit()
        count()
        return arrived
    finally:
        staged.discard()


def _copy_content(token: CancelToken, source: int, target: int) -> None:
    """Copy the bytes, and the time of the file, which a client may have set."""
    _copy_bytes(token, source, target)
    info = os.fstat(source)
    with suppress(OSError):
        os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))


def _copy_bytes(token: CancelToken, source: int, target: int) -> None:
    try:
        while copied := os.copy_file_range(source, target, _CHUNK):
            count(0, copied)
            token.check()
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        while chunk := os.read(source, 2**20):
            token.check()
            write_all(target, [chunk])
            count(0, len(chunk))
