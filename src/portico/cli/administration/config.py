"""`portico config …`: check the settings."""

import asyncio
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.administration.accounts import database_as_it_is
from portico.cli.administration.home import existing_or_shared
from portico.cli.console.parser import Command, Group
from portico.model.errors import Misconfigured, NotPossible, PorticoError, Unavailable, for_administrator

if TYPE_CHECKING:
    from portico.settings.settings import Settings


class SettingsDiffer(PorticoError, code="settings-differ"): ...


def check(options: SimpleNamespace) -> None:
    settings = existing_or_shared(options.home)
    _check_references(settings)
    asyncio.run(_compare_with_database(settings))
    place = settings.properties_file if settings.properties_file.exists() else "The environment"
    print(f"{place}: no mistakes")


def _check_references(settings: "Settings") -> None:
    from portico.accounts.vault import SecretKey
    from portico.observability.audit import open_audit
    from portico.observability.tracing import check_extra
    from portico.server.bind_address import check_apart

    if settings.tls_files:
        from portico.server.certificates import provided

        provided(*settings.tls_files)
    if SecretKey.exists(settings.secret_key_file):
        SecretKey.load(settings.secret_key_file)
    check_extra(settings.otel_endpoint)
    if settings.metrics_address:
        check_apart(settings.metrics_address[1], settings.port)
    if settings.audit_file not in (None, "stdout"):
        open_audit(settings.audit_file, required=True).check()


async def _compare_with_database(settings: "Settings") -> None:
    """Check what a start would refuse: the schema, the key, and what all nodes agree on. Nothing is changed."""
    from portico.accounts.cluster import Cluster
    from portico.store.schema import is_current

    try:
        async with database_as_it_is(settings.database_url) as database:
            if not await is_current(database):
                return  # the first start, or the next one, makes the tables that are missing
            differences = await Cluster(database).differences(settings.secret_key_file, settings.of_the_cluster())
    except (Misconfigured, NotPossible):
        raise
    except Unavailable as error:
        print(f"The settings were not compared with the database: {for_administrator(error)}", file=sys.stderr)
        return
    if differences:
        raise SettingsDiffer("\n".join(for_administrator(each) for each in differences))


COMMANDS = {
    "config": Group(
        "Check the settings in application.properties.",
        {
            "check": Command(
                check,
                "Report the file, line and key of every mistake, and every difference from the "
                "other nodes on the database.",
            )
        },
    )
}
