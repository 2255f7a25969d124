"""Whether the gateway can read and write a connection's folder."""

import os
import stat as modes

from portico.paths import RESERVED_PREFIX

_MISSING = (FileNotFoundError, NotADirectoryError)


def access_problem(folder: str, *, writable: bool) -> str | None:
    """What is wrong with the folder, as the end of a sentence that begins with its name; None if nothing is."""
    try:
        info = os.stat(folder)
    except _MISSING:
        return "is missing"
    except OSError as error:
        return f"cannot be reached ({error.strerror})"
    if not modes.S_ISDIR(info.st_mode):
        return "is a file, not a folder"
    if not _has_access(folder, os.R_OK | os.X_OK):
        return f"cannot be read by the user {os.geteuid()}; it belongs to the user {info.st_uid}"
    return _write_problem(folder, info) if writable else None


def _write_problem(folder: str, info: os.stat_result) -> str | None:
    if not _has_access(folder, os.W_OK):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "cannot be written, because its file system is read-only"
        return f"cannot be written by the user {os.geteuid()}; it belongs to the user {info.st_uid}"
    name = f"{RESERVED_PREFIX}staging"
    staging = os.path.join(folder, name)
    if os.path.exists(staging) and not _has_access(staging, os.W_OK | os.X_OK):
        return f"cannot be written, because {name} in it cannot be"
    return None


def _has_access(path: str, access: int) -> bool:
    """As the effective user; root may do whatever the file system allows."""
    return os.access(path, access, effective_ids=os.access in os.supports_effective_ids)
