"""Files that one program has at a time: partial downloads, and records of unfinished uploads."""

import contextlib
import os
from io import FileIO


def locked_file(path: str | os.PathLike[str], mode: int) -> FileIO | None:
    """The file, which is made if it is missing, opened and locked; None if somebody has it. A link is not followed."""
    while True:
        file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode), "r+b")
        try:
            if not _is_locked(file.fileno()):
                file.close()
                return None
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()  # it was renamed or deleted before it was locked


def _is_locked(descriptor: int) -> bool:
    """Whether this process has the lock now."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
