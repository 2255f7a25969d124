"""`portico config …`: check the settings."""

import asyncio
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from portico.cli.exits import sentence
from portico.cli.home import existing_or_shared
from portico.cli.parser import Command, Group
from portico.errors import Misconfigured, NotPossible, PorticoError, Unavailable

if TYPE_CHECKING:
    from portico.settings import Settings


class SettingsDiffer(PorticoError):
    """The settings do not fit the database."""

    code = "settings-differ"


def check(options: SimpleNamespace) -> None:
    settings = existing_or_shared(options.home)
    _check_references(settings)
    asyncio.run(_compare_with_database(settings))
    place = settings.properties_file if settings.properties_file.exists() else "The environment"
    print(f"{place}: no mistakes")


def _check_references(settings: "Settings") -> None:
    """Check that the files and the addresses in the settings can be used."""
    from portico.accounts.vault import SecretKey
    from portico.audit import open_audit
    from portico.cli.bind_address import check_apart
    from portico.tracing import check_extra

    if settings.tls_files:
        from portico.cli.tls import provided

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
    from portico.store.database import Database
    from portico.store.schema import is_current

    database = Database(settings.database_url, blocking=True)
    try:
        if not await is_current(database):
            return  # the first start, or the next one, makes the tables that are missing
        differences = await Cluster(database).differences(settings.secret_key_file, settings.of_the_cluster())
    except (Misconfigured, NotPossible):
        raise
    except Unavailable as error:
        print(f"Not compared with the database: {sentence(error)}", file=sys.stderr)
        return
    finally:
        await database.close()
    if differences:
        raise SettingsDiffer("\n".join(sentence(each) for each in differences))


COMMANDS = {
    "config": Group(
        "Check the settings in application.properties.",
        {
            "check": Command(
                check,
                "Report the file, line and key of every mistake, and what differs from the other nodes on the database.",
            )
        },
    )
}
