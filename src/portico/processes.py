"""A process by name, so that another one on the same machine can see whether it still runs.

It is a process of one boot of one machine, in one PID namespace: a container has its own processes, and a process id says
nothing about those of another one.
"""

import os
from enum import Enum, auto
from functools import cache
from hashlib import sha256


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


def _started(process: int) -> int | None:
    """When the process started, in clock ticks since the boot; 0 if it has ended, None if it cannot be seen."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The second field is the program's name in parentheses, which may contain anything.
            state, *fields = file.read().rpartition(b")")[2].split()
        return 0 if state in (b"Z", b"X") else int(fields[18])
    except OSError:
        return None
