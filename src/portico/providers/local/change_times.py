"""How soon after a change the times of a folder show the next one.

A kernel stamps changes with a clock that advances at its tick, some milliseconds. So two changes within a tick may leave
a folder with the same times, but no two that are further apart, if the file system stores the whole stamp and the
stamps come from the clock of this machine.
"""

import re
import sys
import time

_COARSE_NS = 2 * 10**9
"""FAT stores even seconds; a file server has a clock of its own."""
_TICKS = 2
_TICK_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, the clock of the stamps, for which Python has no name."""
_FINE = frozenset({"btrfs", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""File systems that store nanoseconds of this machine's clock; a writable layer of `overlay` is one of the others."""
_KNOWN_SECONDS = 1.0
"""How long the kind of a device is remembered: its number may be reused by another mount."""


class ChangeTimes:
    def __init__(self) -> None:
        self._kinds: dict[int, tuple[float, bool]] = {}
        """By device: until when it is known, and whether its times are fine."""

    def now(self) -> int:
        """The clock of the stamps, in nanoseconds: a later change of a folder gets no earlier time than this."""
        return time.clock_gettime_ns(_TICK_CLOCK) if sys.platform == "linux" else time.time_ns()

    def are_settled(self, descriptor: int, device: int, changed_ns: int, now_ns: int) -> bool:
        """Whether any change after `now_ns` gives the folder other times, if they were `changed_ns` then."""
        age = now_ns - changed_ns
        # Whole seconds: a file system of this kind that has no room for more, such as ext4 with small inodes.
        return age > _COARSE_NS or (
            changed_ns % 10**9 != 0 and self._are_fine(descriptor, device) and age > _TICKS * _tick_ns()
        )

    def _are_fine(self, descriptor: int, device: int) -> bool:
        now = time.monotonic()
        until, fine = self._kinds.get(device, (0.0, False))
        if now >= until:
            fine = file_system_of(descriptor) in _FINE
            self._kinds = {number: known for number, known in self._kinds.items() if now < known[0]} | {
                device: (now + _KNOWN_SECONDS, fine)
            }
        return fine


def file_system_of(descriptor: int) -> str:
    """The kind of file system of an open file, as `mount` shows it; empty where the system does not tell."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="utf-8") as file:
            mounts: list[str] = re.findall(r"^mnt_id:\s*(\d+)$", file.read(), re.MULTILINE)
        # Not by device: a subvolume of btrfs has a device number that is not in this table.
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                if line.split(" ", 1)[0] in mounts:
                    return line.partition(" - ")[2].split(" ", 1)[0]
    except OSError:
        pass
    return ""


def _tick_ns() -> int:
    return round(time.clock_getres(_TICK_CLOCK) * 10**9)
