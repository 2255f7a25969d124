"""Who sits at the other end of standard input, what comes from there, and where output goes."""

import os
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


def speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().startswith("utf")


def read_standard_input(limit: int = 1024 * 1024) -> str:
    """Text that was piped in, without the line end that closes it."""
    data = standard_input().read(limit)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageMistake("Standard input is not valid UTF-8; send it in that encoding.") from None
