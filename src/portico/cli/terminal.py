"""Who sits at the other end of standard input, what comes from there, and where output goes."""

import io
import os
import select
import stat
import sys
from typing import BinaryIO, TextIO

from portico.cli.exits import UsageMistake


def at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def mend_streams() -> None:
    """Let no name stop the output that its encoding cannot say, and none be missed that nobody reads."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise UsageMistake("Standard input is closed; there is nothing to read.")
    return sys.stdin.buffer


def standard_output() -> TextIO:
    if sys.stdout is None:
        raise UsageMistake("Standard output is closed; there is no place for what was asked for.")
    return sys.stdout


def something_is_piped(wait: float = 1.0) -> bool:
    """Whether standard input is a file, pipe or socket that holds something, or may still; nothing is read from it.

    One that ends at once, such as `/dev/null`, holds nothing. A pipe has so many seconds to end or to say something.
    """
    try:
        number = sys.stdin.fileno() if sys.stdin is not None else -1
        mode = os.fstat(number).st_mode
        if stat.S_ISREG(mode):
            return os.fstat(number).st_size > os.lseek(number, 0, os.SEEK_CUR)
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return False
        return not select.select([number], [], [], wait)[0] or _bytes_in(number) > 0
    except (io.UnsupportedOperation, ValueError, OSError):
        return False  # closed, or no file of the system's


def _bytes_in(number: int) -> int:
    import fcntl
    import struct
    import termios

    (count,) = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0" * 4))
    return int(count)


def speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().startswith("utf")


def read_standard_input(limit: int = 1024 * 1024) -> str:
    """Text that was piped in, without the line end that closes it."""
    data = standard_input().read(limit)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageMistake("Standard input is not valid UTF-8; send it in that encoding.") from None
