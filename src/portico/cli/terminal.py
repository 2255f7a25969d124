"""Who sits at the other end of standard input, and what comes from there."""

import sys

from portico.cli.exits import UsageMistake


def at_terminal() -> bool:
    return sys.stdin.isatty()


def read_standard_input(limit: int = 1024 * 1024) -> str:
    """Text that was piped in, without the line end that closes it."""
    data = sys.stdin.buffer.read(limit)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageMistake("Standard input is not valid UTF-8; send it in that encoding.") from None
