"""The volume id: a hidden file in a connection's folder, whose content the connection knows, too.

It tells the folder from the empty one that is seen in its place while its disk or share is not mounted.
"""

import os
from contextlib import suppress
from secrets import token_hex

from portico.paths import RESERVED_PREFIX

FILE = f"{RESERVED_PREFIX}volume"
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_BYTES = 128


def read(folder: int) -> str | None:
    """The id in an open folder; None if there is none."""
    try:
        file = os.open(FILE, os.O_RDONLY | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        return os.read(file, _MAX_BYTES).decode(errors="replace").strip()
    finally:
        os.close(file)


def read_or_make(folder: str) -> str | None:
    """The id in the folder at this path, made if there is none; None if the folder is missing or cannot be written."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = read(descriptor)
            if found is None:
                _make(descriptor)
                found = read(descriptor)
            return found or None
        finally:
            os.close(descriptor)
    return None


def problem(folder: int, expected: str) -> str | None:
    """As `folder_access.access_problem`, for a connection that expects this id in an open folder."""
    found = read(folder)
    if found == expected:
        return None
    if found is None:
        return "does not have the connection's volume id, so its disk or share is probably not mounted"
    return "has another volume id than the connection, so another disk or share is probably mounted there"


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
