"""`portico serve`: set up what is missing, check what could fail, then start the server."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration import home as homes
from portico.cli.administration.accounts import Accounts, with_settings
from portico.cli.administration.connections import location, problem
from portico.cli.administration.home_setup import (
    FIRST_USER,
    add_first_user,
    add_local_connection,
    forget_password_file,
    undone_on_failure,
)
from portico.cli.console.exits import UsageMistake
from portico.cli.console.parser import Command, flag, option
from portico.model.errors import NotPossible
from portico.model.rights import Right

if TYPE_CHECKING:
    from portico.cli.administration.banner import Startup
    from portico.server.certificates import Certificate
    from portico.settings.settings import Settings
    from portico.store.database import Database


def serve(options: SimpleNamespace) -> None:
    flags = {
        "host": options.host,
        "port": options.port,
        "tls": _absolute(options.tls),
        "workers": options.workers,
        "behind-proxy": options.behind_proxy,
    }
    overrides = {f"server.{flag}": value for flag, value in flags.items() if value is not None}
    if options.no_migrate:
        overrides["database.migrate"] = "false"
    with undone_on_failure(options.home):
        homes.make(options.home)
        lock = homes.claim(options.home)
        startup = _prepare(options.home, overrides)

    from portico.server.processes import Server

    def load_certificate() -> "Certificate":
        certificate = _certificate(startup.settings, str(startup.address), running=True)
        assert certificate is not None
        return certificate

    server = Server(startup.settings, startup.address, overrides, startup.certificate, load_certificate)
    server.run(on_ready=lambda: _show(startup))
    if lock is not None:
        os.close(lock)
    _print_safely(lambda: print("Stopped.", flush=True))


def _prepare(home: Path, overrides: dict[str, str]) -> "Startup":
    """Everything that can fail before the server starts."""
    from portico.cli.administration.banner import Startup
    from portico.observability.tracing import check_extra
    from portico.server import bind_address

    settings = _settings(home, overrides)
    check_extra(settings.otel_endpoint)
    address = bind_address.resolve(settings.host)
    bind_address.check_exposure(address, protected=settings.tls_enabled or bool(settings.behind_proxy))
    bind_address.check_free(address, settings.port)
    if settings.metrics_address:
        bind_address.check_metrics(*settings.metrics_address, besides=settings.port)
    startup = Startup(settings, address, _certificate(settings, str(address)))
    return with_settings(settings, lambda accounts: _first_start(accounts, startup), make_key=True)


def _settings(home: Path, overrides: dict[str, str]) -> "Settings":
    from portico.settings.settings import SettingsError

    try:
        return homes.prepare(home, overrides)
    except SettingsError as error:
        if all(mistake.key.startswith("--") for mistake in error.mistakes):
            sentences = [f"{mistake.key} {mistake.message}." for mistake in error.mistakes]
            raise UsageMistake("\n".join(sentences)) from None
        raise


def _print_safely(write: Callable[[], None]) -> bool:
    """Whether the output could be written; a closed terminal or pipe does not stop the server."""
    try:
        write()
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return False
    return True


def _absolute(tls: str | None) -> str | None:
    """Relative files on the command line start at the current folder, those in the settings at the home folder."""
    if tls is None or "," not in tls:
        return tls
    return ",".join(os.path.abspath(file.strip()) if file.strip() else "" for file in tls.split(","))


def _certificate(settings: "Settings", address: str, *, running: bool = False) -> "Certificate | None":
    if not settings.tls_enabled:
        return None
    from portico.server.certificates import provided, self_signed

    if files := settings.tls_files:
        return provided(*files)
    return self_signed(settings.tls_folder, address, running=running)


async def _first_start(accounts: Accounts, startup: "Startup") -> "Startup":
    """Add the first connection and user if they are missing; the result has what the banner shows of the accounts."""
    from portico.server.composition import agreed

    await _check_rights(accounts.database)
    await add_local_connection(accounts)
    # Right before the home is marked as set up: a start that fails earlier removes the new home and its key.
    settings, _ = await agreed(startup.settings, accounts.database)
    password = await add_first_user(accounts)
    names = [user.name for user in await accounts.users.list() if not user.disabled]
    connections = await accounts.connections.list(with_secrets=False)
    in_use = await accounts.connections.in_use()
    problems = [
        problem(each, accounts.settings.home, writable=Right.UPLOAD in in_use.get(each.name, ()))
        for each in connections
    ]
    startup = replace(
        startup,
        settings=settings,
        storage=[(each.name, location(each)) for each in connections],
        warnings=[text for text in problems if text],
    )
    if FIRST_USER not in names:
        return replace(startup, user=names[0] if names else None)
    if password and sys.stdout.isatty():
        return replace(startup, user=FIRST_USER, password=password)
    file = accounts.settings.home / homes.PASSWORD_FILE
    return replace(startup, user=FIRST_USER, password_file=file if file.exists() else None)


async def _check_rights(database: "Database") -> None:
    """A worker would fail without them, and so would the next one."""
    if missing := (await database.state()).missing_rights:
        raise NotPossible(
            f"The role in database.url can't write to the database {database.name}; make it the "
            "owner of the database and its tables. Missing: "
            f"{shorten(missing, 100, placeholder=' …')}."
        )


def _show(startup: "Startup") -> None:
    """Show the banner, and remember its address; a password that was shown is removed from its file."""
    from portico.cli.administration import banner

    homes.remember_address(startup.settings.home, banner.known_url(startup), is_local=banner.is_local(startup))
    if _print_safely(lambda: banner.show(startup)) and startup.password:
        forget_password_file(startup.settings.home, FIRST_USER)


_OPTIONS = (
    option("--host", metavar="ADDRESS", help="The address to listen on. Default: 127.0.0.1."),
    option("--port", metavar="PORT", help="The port to listen on. Default: 8080."),
    option(
        "--tls", metavar="auto|off|CERT,KEY", help="Serve HTTPS; auto makes a self-signed certificate. Default: off."
    ),
    option("--workers", metavar="N", help="The number of worker processes. Default: 1."),
    option(
        "--behind-proxy",
        metavar="RANGES",
        help="Addresses of the proxies in front of the gateway; no other address can connect. Default: no proxy.",
    ),
    flag("--no-migrate", help="Refuse to start if the database must be migrated first."),
)


COMMANDS = {
    "serve": Command(
        serve,
        "Start the gateway. The first start creates the home folder and a Web User.",
        _OPTIONS,
        "Each option overrides the setting with the same name in application.properties, such as "
        "server.port; --no-migrate sets database.migrate to false. Without an option, the setting "
        "applies.\n\nExamples:\n  portico serve\n  portico serve --host 0.0.0.0 --tls auto\n  "
        "portico serve --behind-proxy 127.0.0.1",
    )
}
