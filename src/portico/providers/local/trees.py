"""Copying and moving files and whole folders. All of it blocks; it runs in a thread."""

import errno
import os
from contextlib import suppress

from portico.errors import AlreadyExists, NotPossible, PorticoError
from portico.paths import Path, name_flaw
from portico.providers.local.descriptors import (
    OpenFile,
    etag_of,
    found,
    is_folder,
    look,
    opened_folder,
    translated,
    visible,
)
from portico.providers.local.staging import StagedFile, check_replaceable, place, write_all

_PIECE = 64 * 2**20


def copy(top: str, source: Path, target: Path, replace: bool) -> None:
    with found(top, source) as (_, info):
        folder = is_folder(info)
    if folder:
        _claim_folder(top, target, replace)
        _copy_tree(top, source, target, replace)
    else:
        _copy_file(top, source, target, replace)


def move(top: str, source: Path, target: Path, replace: bool) -> None:
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
                _remove_copied(top, _copy_tree(top, source, target, replace))
            os.fsync(target_folder)
        os.fsync(source_folder)


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
        _check_folder_target(top, target, replace)
        return
    with opened_folder(top, target.parent, make=True) as folder:
        try:
            os.mkdir(target.name, dir_fd=folder)
        except FileExistsError:
            raise AlreadyExists(
                f"'{target.name}' exists already and was not replaced; choose another name or onConflict."
            ) from None


def _check_folder_target(top: str, target: Path, replace: bool) -> None:
    try:
        with opened_folder(top, target.parent) as folder:
            info = look(folder, target.name)
    except FileNotFoundError:
        return
    if info is not None and not (replace and is_folder(info)):
        raise AlreadyExists(
            f"'{target.name}' exists already and was not replaced; choose another name or onConflict."
        )


def _copy_tree(top: str, source: Path, target: Path, replace: bool) -> list[tuple[Path, str | None]]:
    """Copy all that is in a folder; what was copied, folders before their content, files with their etag."""
    copied: list[tuple[Path, str | None]] = []
    pending = [(source, target)]
    try:
        while pending:
            source, target = pending.pop()
            with translated(target):
                _check_folder_target(top, target, replace=True)
                with opened_folder(top, target, make=True):
                    pass
            copied.append((source, None))
            with translated(source), opened_folder(top, source) as folder:
                names = [name for name in os.listdir(folder) if name_flaw(name) is None]
                kinds = [(name, info) for name in names if (info := look(folder, name)) and visible(info)]
            for name, info in kinds:
                if is_folder(info):
                    pending.append((source.child(name), target.child(name)))
                else:
                    with translated(source):
                        etag = _copy_file(top, source.child(name), target.child(name), replace)
                    copied.append((source.child(name), etag))
    except PorticoError as error:
        done = sum(etag is not None for _, etag in copied)
        raise error.after(f"{done} files were copied") from error
    return copied


def _remove_copied(top: str, copied: list[tuple[Path, str | None]]) -> None:
    """Remove the sources, but nothing that came or changed while they were copied."""
    for path, etag in reversed(copied):
        with translated(path), suppress(FileNotFoundError), opened_folder(top, path.parent) as folder:
            info = look(folder, path.name)
            if etag is None:
                with suppress(OSError):  # something new is in it
                    os.rmdir(path.name, dir_fd=folder)
            elif info is not None and etag_of(info) == etag:
                os.unlink(path.name, dir_fd=folder)


def _copy_file(top: str, source: Path, target: Path, replace: bool) -> str:
    """Copy one file; the etag of the version that was copied."""
    if source == target:
        raise NotPossible("A file cannot be copied onto itself; choose another target.")
    staged = StagedFile(top, target, replace=replace)
    try:
        with opened_folder(top, source.parent) as folder:
            file = OpenFile(folder, source)
        _copy_bytes(file.fileno(), staged.open())
        staged.commit()
    finally:
        staged.discard()
    return etag_of(file.info)


def _copy_bytes(source: int, target: int) -> None:
    try:
        while os.copy_file_range(source, target, _PIECE):
            pass
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        while piece := os.read(source, 2**20):
            write_all(target, [piece])
