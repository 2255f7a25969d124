"""`portico cluster …`: what all nodes on one database agree on.

These commands work without the secret key, and with another one.
"""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from portico.cli.administration.accounts import opened_database, run_audited
from portico.cli.administration.home import existing_or_shared
from portico.cli.console.output import JSON, show_one
from portico.cli.console.parser import Command, Group, flag
from portico.cli.console.terminal import confirm
from portico.model import timestamps
from portico.model.errors import NotPossible, Unavailable

if TYPE_CHECKING:
    from portico.settings.settings import Settings
    from portico.store.database import Database


async def check_stopped(database: "Database", *, force: bool) -> None:
    """`NotPossible` if nodes are running on the database, unless `force`."""
    from portico.store.running_nodes import running_nodes

    try:
        nodes = [] if force else await running_nodes(database)
    except Unavailable:
        return  # there is no database yet, or what comes next says what is wrong with it
    if nodes:
        which = f"The nodes {', '.join(nodes)} are" if len(nodes) > 1 else f"The node {nodes[0]} is"
        raise NotPossible(
            f"{which} running on the database {database.name}; stop all nodes first. Crashed nodes "
            "are forgotten after five minutes; to continue anyway, add --force."
        )


FORCE = flag("--force", help="Continue even if nodes are running.")
_SHOWN_DIGITS = 16


def show(options: SimpleNamespace) -> None:
    settings = existing_or_shared(options.home)
    facts = asyncio.run(_facts(settings))
    if not options.as_json:
        held = [f"{each['name']}: {each['owner']} until {each['expiresAt']}" for each in facts["leases"]]
        facts["leases"] = ", ".join(held)
        facts["nodes"] = ", ".join(facts["nodes"])
    show_one(facts, as_json=options.as_json)


async def _facts(settings: "Settings") -> dict[str, Any]:
    from portico.accounts.cluster import Cluster
    from portico.accounts.vault import SecretKey
    from portico.store.cluster import KEY
    from portico.store.running_nodes import held_leases, running_nodes
    from portico.store.schema import OLDEST_CODE_VALUE

    async with opened_database(settings, reads_only=True) as database:
        agreed = await Cluster(database).identity()
        state = await database.state(OLDEST_CODE_VALUE)
        file = settings.secret_key_file
        mine = SecretKey.load(file).fingerprint() if SecretKey.exists(file) else ""
        return {
            "database": database.name,
            "schema": state.revision or None,
            "oldestCode": state.values[0],
            "secretKey": agreed.get(KEY, "")[:_SHOWN_DIGITS] or None,
            "secretKeyHere": mine[:_SHOWN_DIGITS] or None,
            "clientId": agreed.get("security.client-id"),
            "publicUrl": agreed.get("server.public-url"),
            "nodes": await running_nodes(database),
            "leases": [
                {"name": name, "owner": owner, "expiresAt": timestamps.from_epoch(expires_at)}
                for name, owner, expires_at in await held_leases(database)
            ],
        }


def forget(options: SimpleNamespace) -> None:
    from portico.accounts.cluster import Cluster

    settings = existing_or_shared(options.home)
    confirm(
        "The next node to start sets a new secret key, client id and public URL for all nodes; stop all nodes first.",
        yes=options.yes,
    )

    async def forgotten() -> str:
        async with opened_database(settings) as database:
            await check_stopped(database, force=options.force)
            await Cluster(database).forget()
            return database.name

    name = run_audited(settings, "cluster.forget", "cluster", forgotten)
    print(f"Forgot the shared settings of the database {name}. The next node to start sets them again.")


COMMANDS = {
    "cluster": Group(
        "Show or forget the settings all nodes on a database share.",
        {
            "show": Command(
                show,
                "Show the settings all nodes share, the running nodes, and who holds which "
                "lease.\n\nFor the secret key, the start of its fingerprint is shown, next to the "
                "fingerprint of this node's key.",
                (JSON,),
            ),
            "forget": Command(
                forget,
                "Forget the settings all nodes share, so that the next start sets them again.\n\n"
                "Use this if the secret key is lost, or to change a setting that must be the same "
                "on all nodes. Credentials encrypted with another key remain unreadable: add their "
                "connections again.",
                (flag("--yes", help="Don't ask for confirmation."), FORCE),
            ),
        },
    )
}
