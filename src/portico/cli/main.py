"""The `portico` command: finds the command that was typed, runs it, and turns failures into exit codes.

Modules are imported when a command needs them, so help and usage errors are quick, and the commands that talk to a
gateway run without the server's dependencies.
"""

import gc
import sys
from collections.abc import Sequence

from portico import __version__
from portico.cli.commands import COMMANDS, load
from portico.cli.console.exits import DONE, FAILED, INTERRUPTED, PIPE_CLOSED, USAGE, UsageMistake, exit_code
from portico.model.errors import PorticoError, for_administrator
from portico.model.visible_text import visible

SERVER_MODULES = (
    "alembic",
    "argon2",
    "cryptography",
    "granian",
    "javaproperties",
    "msgspec",
    "multipart",
    "sqlalchemy",
    "starlette",
    "structlog",
    "yaml",
)
"""The modules that the extra `server` installs."""

_GC_THRESHOLD = 10_000
"""Allocations between two garbage collections. The default of 700 costs `portico user list` a tenth of a second."""

_HELP_FLAGS = ("-h", "--help")
_EXAMPLES = {
    "portico serve": "start a gateway (the first start sets it up)",
    "portico login https://files.example.com": "sign in to a gateway",
    "portico put report.pdf /reports/": "upload a file",
}


class ServerMissing(PorticoError, code="server-missing"): ...


def main() -> None:
    code = run(sys.argv[1:])
    gc.freeze()  # or the interpreter searches all modules for garbage at its exit, a tenth of a second for `user list`
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command; print a failure as one sentence on standard error. The result is the exit code."""
    try:
        code = _run(arguments)
        if sys.stdout:
            sys.stdout.flush()  # a closed pipe is noticed here rather than when the interpreter exits
        return code
    except PorticoError as error:
        _print_error(for_administrator(error))
        return exit_code(error)
    except KeyboardInterrupt:
        _print_error("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # or the interpreter reports it again when it exits
        return PIPE_CLOSED
    except OSError as error:
        _print_error(f"{error.filename or 'The system'}: {error.strerror or error}.")
        return FAILED
    finally:
        gc.enable()  # a start that failed has turned it off


def _run(arguments: Sequence[str]) -> int:
    home, words = _take_home(arguments)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in _HELP_FLAGS:
        print(_help())
        return DONE
    if words[0] in ("--version", "version"):
        print(f"portico {__version__}")
        return DONE
    return _dispatch(words, home)


def _dispatch(words: list[str], home: str | None) -> int:
    from portico.cli.console.parser import Group, Parser, of_command, of_group
    from portico.cli.console.terminal import prepare_streams

    prepare_streams()
    name, *rest = words
    if name == "serve":
        gc.disable()  # until it serves: what is imported stays
        # What libraries import if it is installed, and Portico does not use: structlog rich, for tracebacks in color (80
        # modules, 4 MiB); Granian dotenv, for files of variables.
        for unused in ("rich", "dotenv"):
            sys.modules.setdefault(unused, None)  # type: ignore[arg-type]
    else:
        gc.set_threshold(_GC_THRESHOLD)
    _check_command(name)
    command, prog = load(name), f"portico {name}"
    needs_server = COMMANDS[name].needs_server
    if isinstance(command, Group):
        if not rest or rest[0] in _HELP_FLAGS:
            text = of_group(command, prog, with_home=needs_server)
            print(text, file=sys.stdout if rest else sys.stderr)
            return DONE if rest else USAGE
        command, prog, rest = command.find(prog, rest[0]), f"{prog} {rest[0]}", rest[1:]
    parser = Parser(command, prog, with_home=needs_server)
    options = parser.parse(rest)
    if options is None:
        print(of_command(parser))
        return DONE
    options.command = name
    if needs_server:
        from portico.cli.administration.home import find_home

        options.home = find_home(home)
    return command.run(options) or DONE


def _check_command(name: str) -> None:
    if name not in COMMANDS:
        from portico.cli.console.parser import unknown

        if name.partition("=")[0] == "--profile":
            raise UsageMistake("--profile must follow the command: portico COMMAND --profile NAME.")
        raise unknown(name, COMMANDS, ("--help", "--home", "--version"), "portico")
    if COMMANDS[name].needs_server:
        from importlib.util import find_spec

        if not all(map(find_spec, SERVER_MODULES)):
            raise ServerMissing(
                "Only the client is installed here; install the gateway with: pip install 'portico-gateway[server]'"
            )


def _help() -> str:
    from portico.cli.console.parser import paragraphs, table

    server = {name: entry.summary for name, entry in COMMANDS.items() if entry.needs_server}
    client = {name: entry.summary for name, entry in COMMANDS.items() if not entry.needs_server}
    return paragraphs(
        "Usage: portico COMMAND …",
        "A safe, fast gateway in front of storage.",
        table("Run and administer a gateway:", server),
        table("Work with files on a gateway:", client),
        table("Examples:", _EXAMPLES, max_term_width=40),
        "For help with a command, run 'portico COMMAND --help'. To print the version, run 'portico --version'.",
        "--home DIR sets the gateway's home folder. It can be anywhere in the command. The default "
        "is PORTICO_HOME, or your user data folder.",
    )


def _take_home(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take `--home DIR` out of the arguments; it may be anywhere before a `--`."""
    rest = list(arguments)
    end = rest.index("--") if "--" in rest else len(rest)
    index = next((at for at in range(end) if rest[at] == "--home" or rest[at].startswith("--home=")), None)
    if index is None:
        return None, rest
    flag, separator, home = rest.pop(index).partition("=")
    if not separator:
        if index >= len(rest):
            raise UsageMistake(f"{flag} needs a folder; write {flag} DIR.")
        home = rest.pop(index)
    return home, rest


def _print_error(text: str) -> None:
    print(visible(text, lines=True), file=sys.stderr, flush=True)
