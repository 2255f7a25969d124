"""Sockets that belong to others, such as the server library or a database driver, by their descriptors."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def borrowed_socket(descriptor: int) -> Iterator[socket.socket]:
    """The socket of a descriptor that others may close at any time; `OSError` if it is none.

    It is a duplicate, so that its number cannot belong to another file by the time it is used. The kind is checked first,
    so that files are not duplicated: closing the duplicate would release the POSIX locks of this process, which SQLite
    relies on, and leaving it open would keep the locks of `flock`. Only a number that changes hands between the two calls
    escapes the check.
    """
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
    duplicate = os.dup(descriptor)
    try:
        borrowed = socket.socket(fileno=duplicate)
    except OSError:  # another thread has closed it meanwhile, and its number is a file's
        os.close(duplicate)
        raise
    with borrowed:
        yield borrowed
