"""Processes of this machine, and sockets that belong to other libraries."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import cache
from hashlib import sha256


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


class ProcessState(Enum):
    RUNNING = auto()
    ENDED = auto()
    UNKNOWN = auto()
    """It is on another machine or in another container, or was before a restart of this one."""


@cache
def name_of(process: int) -> str:
    """The name of a running process: short, and safe in the name of a file."""
    started = _started(process)
    return f"{machine() if started else ''}-{process}-{started or 0}"


def state_of(name: str) -> ProcessState:
    """What has become of the process whose `name_of` the name begins with."""
    place, _, rest = name.partition("-")
    process, _, rest = rest.partition("-")
    started, _, _ = rest.partition("-")
    if not place or place != machine() or not process.isdecimal() or not started.isdecimal():
        return ProcessState.UNKNOWN
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return ProcessState.ENDED
    except OSError:  # it belongs to another user
        pass
    except OverflowError:
        return ProcessState.UNKNOWN
    now = _started(int(process))
    # Without an answer it may be hidden from this user.
    return ProcessState.RUNNING if now is None or now == int(started) else ProcessState.ENDED


@cache
def machine() -> str:
    """This boot of this machine, and the PID namespace; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        return sha256(boot + os.readlink("/proc/self/ns/pid").encode()).hexdigest()[:16]
    except OSError:
        return ""


def has_ended(name: str | None) -> bool:
    """Whether the process is known to have ended; see `state_of`."""
    return name is not None and state_of(name) is ProcessState.ENDED


def _started(process: int) -> int | None:
    """When the process started, in clock ticks since the boot; 0 if it has ended, None if it cannot be seen."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The second field is the program's name in parentheses, which may contain anything.
            state, *fields = file.read().rpartition(b")")[2].split()
        return 0 if state in (b"Z", b"X") else int(fields[18])
    except OSError:
        return None
