"""The `portico` command: which commands there are, and how each of them fails.

Nothing is imported before a command needs it: help and usage mistakes come at once, and who only talks to a gateway
needs nothing of the server.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from portico import __version__
from portico.cli.exits import DONE, FAILED, INTERRUPTED, UsageMistake, exit_code, sentence
from portico.errors import PorticoError


@dataclass(frozen=True, slots=True)
class Command:
    module: str
    """Its `run` takes the words of the command, its own name first, and the home that was named, if any."""
    summary: str
    needs_server: bool = False


_REMOTE = "portico.cli.remote.command"

COMMANDS = {
    "serve": Command("portico.cli.gateway", "Start the gateway.", needs_server=True),
    "user": Command(
        "portico.cli.gateway", "Web Users: who may sign in, and what they see.", needs_server=True
    ),
    "connection": Command(
        "portico.cli.gateway", "Connections: the storage services that hold the files.", needs_server=True
    ),
    "config": Command("portico.cli.gateway", "The settings in application.properties.", needs_server=True),
    "login": Command(_REMOTE, "Sign in to a gateway, and stay signed in."),
    "logout": Command(_REMOTE, "End the sign-in."),
    "whoami": Command(_REMOTE, "Say who is signed in, and where."),
    "ls": Command(_REMOTE, "List folders."),
    "put": Command(_REMOTE, "Upload files and folders."),
    "get": Command(_REMOTE, "Download files and folders."),
    "sync": Command(_REMOTE, "Make one folder like another, there or here."),
    "cat": Command(_REMOTE, "Write files to standard output."),
    "mkdir": Command(_REMOTE, "Make folders."),
    "mv": Command(_REMOTE, "Move or rename."),
    "cp": Command(_REMOTE, "Copy, at the gateway."),
    "rm": Command(_REMOTE, "Remove files and folders."),
    "completion": Command(_REMOTE, "Let the shell complete commands and paths."),
}

_ADMINISTRATION = ("user", "connection", "config")

SERVER_MODULES = (
    "aiosqlite",
    "alembic",
    "argon2",
    "cryptography",
    "granian",
    "javaproperties",
    "msgspec",
    "multipart",
    "pydantic",
    "sqlalchemy",
    "starlette",
    "structlog",
    "typer",
)
"""What the extra `server` brings."""

_HELP = """\
Usage: portico COMMAND …

A safe, fast front on cloud storage. Start it with 'portico serve'; talk to one with 'portico login URL'.

The gateway:
{server}

Files at a gateway:
{client}

'portico COMMAND --help' tells more of each; 'portico --version' prints the version.
--home DIR, anywhere in a command, names the home folder; else PORTICO_HOME, else your user data folder."""


class ServerMissing(PorticoError):
    code = "server-missing"

    def __init__(self) -> None:
        super().__init__(
            "Only the client is installed here; install the gateway with: pip install 'portico-gateway[server]'"
        )


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments ask, say failures in one sentence on standard error, and return the exit code."""
    try:
        code = _run(arguments)
    except PorticoError as error:
        _complain(sentence(error))
        return exit_code(error)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # else the interpreter complains once more on its way out
        return FAILED
    except OSError as error:
        _complain(f"{error.filename or 'The system'}: {error.strerror or error}.")
        return FAILED
    if code == INTERRUPTED:
        _complain("Interrupted.")
    return code


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def _run(arguments: Sequence[str]) -> int:
    home, rest = _take_home(arguments)
    if not rest or rest[0] in ("--help", "-h"):
        print(_HELP.format(server=_summaries(needs_server=True), client=_summaries(needs_server=False)))
        return DONE
    if rest[0] == "--version":
        print(f"portico {__version__}")
        return DONE
    command = COMMANDS.get(rest[0])
    if command is None:
        what = "option" if rest[0].startswith("-") else "command"
        raise UsageMistake(f"There is no {what} {rest[0]!r}; see 'portico --help'.")
    if command.needs_server and not all(map(find_spec, SERVER_MODULES)):
        raise ServerMissing
    if rest[0] in _ADMINISTRATION:
        with _without_collector():
            return _call(command, rest, home)
    return _call(command, rest, home)


def _call(command: Command, rest: list[str], home: str | None) -> int:
    code: int = import_module(command.module).run(rest, home)
    return code


@contextmanager
def _without_collector() -> Iterator[None]:
    """An administrative command ends before the collector could free anything worth the time: a tenth of it all."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _summaries(*, needs_server: bool) -> str:
    width = max(map(len, COMMANDS)) + 2
    shown = [(name, one.summary) for name, one in COMMANDS.items() if one.needs_server is needs_server]
    return "\n".join(f"  {name.ljust(width)}{summary}" for name, summary in shown)


def _take_home(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take `--home DIR` out from anywhere before a `--`: people write it where they think of it."""
    rest = list(arguments)
    stop = rest.index("--") if "--" in rest else len(rest)
    index = next((at for at in range(stop) if rest[at] == "--home" or rest[at].startswith("--home=")), None)
    if index is None:
        return None, rest
    flag, separator, home = rest.pop(index).partition("=")
    if not separator:
        if index >= len(rest):
            raise UsageMistake(f"{flag} needs a folder; write {flag} DIR.")
        home = rest.pop(index)
    return home, rest


def _complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
