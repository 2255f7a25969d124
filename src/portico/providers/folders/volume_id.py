"""The volume id: a hidden file in a connection's folder, whose content the connection knows, too.

It tells the folder from the empty one that is seen in its place while its disk or share is not mounted.
"""

import errno
import os
import re
import stat as modes
from contextlib import suppress
from secrets import token_hex

from portico.model.paths import RESERVED_PREFIX

_MISSING = (FileNotFoundError, NotADirectoryError)


def access_problem(folder: str, *, writable: bool) -> str | None:
    """What is wrong with the folder, as the end of a sentence that begins with its name; None if nothing is."""
    try:
        info = os.stat(folder)
    except _MISSING:
        return "is missing"
    except OSError as error:
        return f"can't be reached ({error.strerror})"
    if not modes.S_ISDIR(info.st_mode):
        return "is a file, not a folder"
    if not _has_access(folder, os.R_OK | os.X_OK):
        return f"can't be read by the user {os.geteuid()}; it belongs to the user {info.st_uid}"
    if not writable:
        return None
    if not _has_access(folder, os.W_OK):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "can't be written, because its file system is read-only"
        return f"can't be written by the user {os.geteuid()}; it belongs to the user {info.st_uid}"
    name = f"{RESERVED_PREFIX}staging"
    staging = os.path.join(folder, name)
    if os.path.exists(staging) and not _has_access(staging, os.W_OK | os.X_OK):
        return f"can't be written, because {name} in it can't be"
    return None


def _has_access(path: str, access: int) -> bool:
    """As the effective user; root may do whatever the file system allows."""
    return os.access(path, access, effective_ids=os.access in os.supports_effective_ids)


FILE = f"{RESERVED_PREFIX}volume"
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ID = re.compile(rb"([0-9a-f]{32})\s*")
_MAX_BYTES = 128
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""What says nothing about the file."""


class Damaged(Exception):
    """The file is not an id that a gateway made. The text is the end of a sentence that begins with the folder's name."""


def read(folder: int) -> str | None:
    """The id in an open folder; None if there is none; raises `Damaged`."""
    try:
        file = os.open(FILE, os.O_RDONLY | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(error) from error
    try:
        # Not a FIFO or a device: who reads one may wait for ever, or change something.
        if not modes.S_ISREG(os.fstat(file).st_mode):
            raise Damaged(f"has a damaged volume id: {FILE} in it is not a regular file")
        content = os.read(file, _MAX_BYTES)
    except OSError as error:
        raise _unreadable(error) from error
    finally:
        os.close(file)
    if found := _ID.fullmatch(content):
        return found[1].decode()
    raise Damaged(f"has a damaged volume id: the content of {FILE} in it was changed")


def damage(folder: str) -> str | None:
    """What is wrong with the id's file in the folder at this path; None if nothing is, or if the folder cannot be opened."""
    try:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                read(descriptor)
            finally:
                os.close(descriptor)
    except Damaged as error:
        return str(error)
    return None


def read_or_make(folder: str) -> str | None:
    """The id in this folder, made if there is none; None if it is missing or cannot be written. Raises `Damaged`."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = read(descriptor)
            if found is None:
                _make(descriptor)
                found = read(descriptor)
            return found
        finally:
            os.close(descriptor)
    return None


def problem(folder: int, expected: str | None) -> str | None:
    """As `folder_access.access_problem`, for a connection that expects this id, or any or none, in an open folder."""
    try:
        found = read(folder)
    except Damaged as error:
        return str(error)
    if expected in (None, found):
        return None
    if found is None:
        return "doesn't have the connection's volume id, so its disk or share is probably not mounted"
    return "has a different volume id than the connection, so another disk or share is probably mounted there"


def _unreadable(error: OSError) -> Exception:
    if error.errno in _EXHAUSTED:
        return error
    if error.errno == errno.ELOOP:
        return Damaged(f"has a damaged volume id: {FILE} in it is a symbolic link")
    return Damaged(f"has a volume id that can't be read: {FILE} in it ({error.strerror})")


def _make(folder: int) -> None:
    """Of several callers, one succeeds: a link never replaces a file."""
    draft = f"{FILE}-{token_hex(8)}"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644, dir_fd=folder)
    try:
        try:
            os.fchmod(file, 0o644)  # the administrator's umask is not the gateway's
            os.write(file, f"{token_hex(16)}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)
        try:
            os.link(draft, FILE, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return
        except OSError:  # the file system has no links
            os.rename(draft, FILE, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
