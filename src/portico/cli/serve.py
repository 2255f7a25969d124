"""`portico serve`: make what is missing, check what could fail, then hand over to the server."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from portico.cli import home as homes
from portico.cli.accounts import Accounts, with_settings
from portico.cli.exits import UsageMistake
from portico.cli.first_start import (
    FIRST_USER,
    add_first_user,
    add_local_connection,
    forget_password_file,
)
from portico.cli.new_home import all_or_nothing
from portico.cli.storage import place, problem
from portico.rights import Right

if TYPE_CHECKING:
    from portico.cli.screen import Start
    from portico.cli.tls import Certificate
    from portico.settings import Settings

Text = str | None


def serve(
    context: typer.Context,
    host: Annotated[Text, typer.Option(metavar="ADDRESS", help="Listen on this address.")] = None,
    port: Annotated[Text, typer.Option(metavar="PORT", help="Listen on this port.")] = None,
    tls: Annotated[
        Text,
        typer.Option(metavar="auto|off|CERT,KEY", help="Serve HTTPS; auto makes a self-signed certificate."),
    ] = None,
    workers: Annotated[Text, typer.Option(metavar="N", help="Serve with this many processes.")] = None,
    behind_proxy: Annotated[
        Text,
        typer.Option(metavar="RANGES", help="Addresses of the proxies in front; nobody else may connect."),
    ] = None,
) -> None:
    """Start the gateway; the first start makes the home folder and a Web User."""
    flags = {
        "host": host,
        "port": port,
        "tls": _absolute(tls),
        "workers": workers,
        "behind-proxy": behind_proxy,
    }
    overrides = {f"server.{flag}": value for flag, value in flags.items() if value is not None}
    with all_or_nothing(context.obj):
        start = _prepared(context.obj, overrides)

    from portico.cli.server import Server

    Server(start.settings, start.address, overrides, start.certificate).run(on_ready=lambda: _show(start))
    _say(lambda: typer.echo("Stopped."))


def _prepared(home: Path, overrides: dict[str, str]) -> "Start":
    """All that can fail before the server is started."""
    from portico.cli import listening
    from portico.cli.screen import Start

    settings = _settings(home, overrides)
    address = listening.resolve(settings.host)
    listening.check_exposure(address, protected=settings.tls_enabled or bool(settings.behind_proxy))
    listening.check_free(address, settings.port)
    if settings.metrics_address:
        listening.check_metrics(*settings.metrics_address, besides=settings.port)
    start = Start(settings, address, _certificate(settings, str(address)))
    return with_settings(settings, lambda accounts: _first_start(accounts, start))


def _settings(home: Path, overrides: dict[str, str]) -> "Settings":
    from portico.settings import SettingsError

    try:
        return homes.prepare(home, overrides)
    except SettingsError as error:
        if all(mistake.key.startswith("--") for mistake in error.mistakes):
            raise UsageMistake(error.detail) from None
        raise


def _say(words: Callable[[], None]) -> bool:
    """Whether it could be said: a terminal that was closed, or a reader that has gone, is no reason to fail."""
    try:
        words()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return False
    return True


def _absolute(tls: Text) -> Text:
    """Files on the command line are meant from where it was typed, those in the settings from the home."""
    if tls is None or "," not in tls:
        return tls
    return ",".join(os.path.abspath(file.strip()) if file.strip() else "" for file in tls.split(","))


def _certificate(settings: "Settings", address: str) -> "Certificate | None":
    if not settings.tls_enabled:
        return None
    from portico.cli.tls import provided, self_signed

    if files := settings.tls_files:
        return provided(*files)
    return self_signed(settings.tls_folder, address)


async def _first_start(accounts: Accounts, start: "Start") -> "Start":
    """Add what is missing; the start with all that the screen shows of the accounts."""
    await accounts.connections.keep_paths_relative()
    await add_local_connection(accounts)
    password = await add_first_user(accounts)
    names = [user.name for user in await accounts.users.list() if not user.disabled]
    connections = await accounts.connections.list(with_secrets=False)
    in_use = await accounts.connections.in_use()
    doubts = [
        problem(each, accounts.settings.home, writable=Right.UPLOAD in in_use.get(each.name, ()))
        for each in connections
    ]
    start = replace(
        start,
        storage=[(each.name, place(each)) for each in connections],
        warnings=[doubt for doubt in doubts if doubt],
    )
    if FIRST_USER not in names:
        return replace(start, user=names[0] if names else None)
    if password and sys.stdout.isatty():
        return replace(start, user=FIRST_USER, password=password)
    file = accounts.settings.home / homes.PASSWORD_FILE
    return replace(start, user=FIRST_USER, password_file=file if file.exists() else None)


def _show(start: "Start") -> None:
    """Show the screen; a password that was shown need not be in its file any longer."""
    from portico.cli import screen

    if _say(lambda: screen.show(start)) and start.password:
        forget_password_file(start.settings.home, FIRST_USER)
