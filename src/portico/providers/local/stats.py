"""`lstat` of all the names of a page at once.

Most of what a page costs is spent here. So it is also written in C (`stats.c`), which is compiled when Portico is
installed, if there is a compiler: one call without the interpreter's lock, and no object for each file.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LIBRARY = Path(__file__).with_name("libstats.so")


class Stats(NamedTuple):
    """One row for each name, in their order."""

    modes: list[int]
    """0 if the name does not exist."""
    sizes: list[int]
    modified: list[int]
    """Milliseconds since 1970."""


_MISSING = os.stat_result([0] * 10, {"st_mtime_ns": 0})

StatNames = Callable[[int, list[str]], Stats]
"""`lstat` of each name in an open folder. An error other than a name that does not exist is raised."""


def stat_in_python(descriptor: int, names: list[str]) -> Stats:
    try:
        infos = [os.stat(name, dir_fd=descriptor, follow_symlinks=False) for name in names]
    except FileNotFoundError:
        infos = [_stat(descriptor, name) for name in names]
    return Stats(
        [info.st_mode for info in infos],
        [info.st_size for info in infos],
        [info.st_mtime_ns // 1_000_000 for info in infos],
    )


def _stat(descriptor: int, name: str) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return _MISSING


def compiled(library: Path = LIBRARY) -> StatNames | None:
    """The same in C; None if it was not compiled."""
    try:
        in_c = ctypes.CDLL(str(library)).portico_stat_names
    except (OSError, AttributeError):
        return None
    in_c.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )

    def stat_in_c(descriptor: int, names: list[str]) -> Stats:
        text = os.fsencode("\0".join(names))
        number = len(names)
        modes, sizes, modified = (
            (ctypes.c_uint32 * number)(),
            (ctypes.c_int64 * number)(),
            (ctypes.c_int64 * number)(),
        )
        row = ctypes.c_size_t()
        # The text ends with a NUL, as that of any `c_char_p`.
        error = in_c(descriptor, text, number, modes, sizes, modified, ctypes.byref(row))
        if error:
            raise OSError(error, os.strerror(error), names[row.value])
        return Stats(modes[:], sizes[:], modified[:])

    return stat_in_c


stat_names: StatNames = compiled() or stat_in_python
