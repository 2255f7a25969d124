"""The `portico` command: its options, its subcommands, and how it fails.

Nothing heavy is imported before a command needs it: help and usage mistakes come at once.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from portico import __version__
from portico.cli import config, connections, serve, users
from portico.cli.exits import DONE, FAILED, INTERRUPTED, UsageMistake, exit_code, sentence
from portico.cli.home import find_home
from portico.errors import PorticoError

app = typer.Typer(
    name="portico",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    # Typer would import pydantic only to find that help was not asked for here.
    context_settings={"default_map": {"help": False}},
)
app.command("serve")(serve.serve)
app.add_typer(users.app, name="user")
app.add_typer(connections.app, name="connection")
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"portico {__version__}")
        raise typer.Exit


@app.callback(
    epilog="--home DIR, anywhere in a command, names the home folder; else PORTICO_HOME, else your user data folder."
)
def portico(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """A safe, fast front on cloud storage. Start it with 'portico serve'."""


def run(arguments: Sequence[str]) -> int:
    """Do what the arguments ask, say failures in one sentence on standard error, and return the exit code."""
    try:
        home, rest = _take_home(arguments)
        result = app(args=rest, obj=find_home(home), prog_name="portico", standalone_mode=False)
    except typer.TyperException as error:
        _complain(_usage_sentence(error))
        return error.exit_code
    except PorticoError as error:
        _complain(sentence(error))
        return exit_code(error)
    except (KeyboardInterrupt, typer.Abort):
        _complain("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = None  # else the interpreter complains once more on its way out
        return FAILED
    except OSError as error:
        _complain(f"{error.filename or 'The system'}: {error.strerror or error}.")
        return FAILED
    if result == INTERRUPTED:  # typer has caught it
        _complain("Interrupted.")
    return result if isinstance(result, int) else DONE


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def _take_home(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take `--home DIR` out from anywhere before a `--`: people write it where they think of it.

    It is no option of typer's, because those would import pydantic even for a help text.
    """
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


def _usage_sentence(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    context = getattr(error, "ctx", None)
    if context is None or "\n" in message:
        return message
    return f"{message.rstrip('.')}; see '{context.command_path} --help'."


def _complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
