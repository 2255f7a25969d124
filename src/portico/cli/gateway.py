"""The commands that run a gateway and administer it; they need what the extra `server` brings."""

import sys

import typer

from portico.cli import config, connections, serve, users
from portico.cli.exits import DONE, INTERRUPTED
from portico.cli.home import find_home

app = typer.Typer(
    name="portico",
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


def run(arguments: list[str], home: str | None) -> int:
    try:
        result = app(args=arguments, obj=find_home(home), prog_name="portico", standalone_mode=False)
    except typer.TyperException as error:
        print(_usage_sentence(error), file=sys.stderr, flush=True)
        return error.exit_code
    except typer.Abort:
        return INTERRUPTED
    return result if isinstance(result, int) else DONE


def _usage_sentence(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    context = getattr(error, "ctx", None)
    if context is None or "\n" in message:
        return message
    return f"{message.rstrip('.')}; see '{context.command_path} --help'."
