"""Standard input and output: terminals, pipes, prompts and encodings."""

import io
import os
import select
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, TextIO

from portico.cli.console.exits import UsageMistake
from portico.model.errors import PorticoError


def at_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def prepare_streams() -> None:
    """Escape characters that the encoding of standard output lacks; replace a closed standard error."""
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
        raise UsageMistake("Standard output is closed; there is nowhere to write to.")
    return sys.stdout


def something_is_piped(wait: float = 1.0) -> bool:
    """Whether standard input is a file, pipe or socket with data, or may still get some; nothing is read.

    `/dev/null` and the like have none. A pipe that is silent for `wait` seconds counts as having some.
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
        return False  # closed, or not a system file


def _bytes_in(number: int) -> int:
    import fcntl
    import struct
    import termios

    (count,) = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0" * 4))
    return int(count)


def draws() -> bool:
    """Whether standard error can show a line that changes."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def draw(text: str) -> None:
    """Replace the last line on the terminal, such as a progress bar."""
    with suppress(OSError, ValueError):  # the terminal is gone
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def notice(text: str) -> None:
    """Print a line on standard error. On a terminal, it replaces a progress bar."""
    erase = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{erase}{text}", file=sys.stderr, flush=True)


def warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr)


def speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().startswith("utf")


def read_standard_input(limit: int = 1024 * 1024) -> str:
    """The text on standard input, without its final line end."""
    data = standard_input().read(limit)
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageMistake("Standard input is not valid UTF-8; encode it as UTF-8.") from None


def ask_new_password(check: Callable[[str], object], word: str = "password") -> str:
    """Prompt for a password, twice, until `check` accepts it and both entries match."""
    while True:
        password = ask_hidden(f"{word.capitalize()}: ")
        if not password:
            continue
        try:
            check(password)
        except PorticoError as error:
            print(error.detail, file=sys.stderr)
            continue
        if ask_hidden(f"Repeat the {word}: ") == password:
            return password
        print(f"The {word}s don't match. Try again.", file=sys.stderr)


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless `yes`; end the command with any answer but "yes"."""
    if yes:
        return
    if not at_terminal():
        raise UsageMistake(f"{question} Standard input is not a terminal: add --yes to confirm.")
    print(f"{question} Type yes to continue: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise KeyboardInterrupt


def ask_hidden(prompt: str) -> str:
    import getpass

    try:
        return getpass.getpass(prompt)
    except EOFError:
        raise KeyboardInterrupt from None
