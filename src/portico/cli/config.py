"""`portico config …`: check the settings."""

from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.home import existing_or_shared
from portico.cli.parser import Command, Group

if TYPE_CHECKING:
    from portico.settings import Settings


def check(options: SimpleNamespace) -> None:
    settings = existing_or_shared(options.home)
    _check_references(settings)
    place = settings.properties_file if settings.properties_file.exists() else "The environment"
    print(f"{place}: no mistakes")


def _check_references(settings: "Settings") -> None:
    """Check that the files, the database and the addresses in the settings can be used."""
    from portico.accounts.vault import SecretKey
    from portico.audit import open_audit
    from portico.cli.bind_address import check_apart
    from portico.cli.tls import provided
    from portico.store.database import Database
    from portico.tracing import check_extra

    if settings.tls_files:
        provided(*settings.tls_files)
    if SecretKey.exists(settings.secret_key_file):
        SecretKey.load(settings.secret_key_file)
    Database(settings.database_url)
    check_extra(settings.otel_endpoint)
    if settings.metrics_address:
        check_apart(settings.metrics_address[1], settings.port)
    if settings.audit_file not in (None, "stdout"):
        open_audit(settings.audit_file, required=True).check()


COMMANDS = {
    "config": Group(
        "Check the settings in application.properties.",
        {"check": Command(check, "Report the file, line and key of every mistake.")},
    )
}
