"""`portico config …`: the settings."""

import typer

from portico.cli.home import existing

app = typer.Typer(help="The settings in application.properties.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def config() -> None:
    """A group, although it holds one command yet."""


@app.command()
def check(context: typer.Context) -> None:
    """Name the file, line and key of every mistake."""
    existing(context.obj)
    typer.echo("application.properties: no mistakes")
