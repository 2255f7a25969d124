"""`portico config …`: the settings."""

import os
from typing import TYPE_CHECKING

import typer

from portico.cli.home import existing

if TYPE_CHECKING:
    from portico.settings import Settings

app = typer.Typer(help="The settings in application.properties.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def config() -> None:
    """A group, although it holds one command yet."""


@app.command()
def check(context: typer.Context) -> None:
    """Name the file, line and key of every mistake."""
    settings = existing(context.obj)
    _check_beyond_the_file(settings)
    typer.echo(f"{settings.properties_file}: no mistakes")


def _check_beyond_the_file(settings: "Settings") -> None:
    """What the settings name must be there too, or the next start would fail."""
    from portico.accounts.vault import SecretKey
    from portico.audit import open_audit
    from portico.cli.listening import check_apart
    from portico.cli.tls import provided
    from portico.store.database import Database

    if settings.tls_files:
        provided(*settings.tls_files)
    if settings.secret_key_file.exists() or "PORTICO_SECRET_KEY" in os.environ:
        SecretKey.load(settings.secret_key_file)
    Database(settings.database_url)
    if settings.metrics_address:
        check_apart(settings.metrics_address[1], settings.port)
    if settings.audit_file not in (None, "stdout"):
        open_audit(settings.audit_file, required=True).check()
