"""Sockets that belong to others, such as the server library or a database driver, by their descriptors."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def borrowed_socket(descriptor: int) -> Iterator[socket.socket]:
    """The socket of a descriptor that others may close at any time; `OSError` if it is none.

    It is a duplicate, so that its number cannot belong to another file by the time it is used.
    """
    duplicate = os.dup(descriptor)
    try:
        borrowed = socket.socket(fileno=duplicate)
    except OSError:
        # A file that stayed open would also stay locked.
        os.close(duplicate)
        raise
    with borrowed:
        yield borrowed
