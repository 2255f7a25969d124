"""`portico cluster …`: what all nodes on one database agree on.

These commands work without the secret key, and with another one.
"""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from portico.cli.administration.accounts import opened_database, run_audited
from portico.cli.administration.home import existing_or_shared
from portico.cli.console.output import json_option, show_one
from portico.cli.console.parser import Command, Group, Parser
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
            f"{which} running on the database {database.name}; stop all nodes first. A node that was lost without being "
            "stopped is forgotten after five minutes; to go on nevertheless, add --force."
        )


def force_option(parser: Parser) -> None:
    parser.add_flag("--force", help="Go on although nodes are running.")


_SHOWN_DIGITS = 16


def show(options: SimpleNamespace) -> None:
    settings = existing_or_shared(options.home)

    async def found() -> dict[str, Any]:
        async with opened_database(settings, reads_only=True) as database:
            return await _facts(settings, database)

    facts = asyncio.run(found())
    if not options.as_json:
        held = [f"{each['name']}: {each['owner']} until {each['expiresAt']}" for each in facts["leases"]]
        facts["leases"] = ", ".join(held)
        facts["nodes"] = ", ".join(facts["nodes"])
    show_one(facts, as_json=options.as_json)


async def _facts(settings: "Settings", database: "Database") -> dict[str, Any]:
    from portico.accounts.cluster import Cluster
    from portico.accounts.vault import SecretKey
    from portico.store.cluster import KEY
    from portico.store.running_nodes import held_leases, running_nodes
    from portico.store.schema import OLDEST_CODE_VALUE

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
        "The next node that starts decides anew on the secret key, the client id and the public URL; stop all nodes first.",
        yes=options.yes,
    )

    async def forgotten() -> str:
        async with opened_database(settings) as database:
            await check_stopped(database, force=options.force)
            await Cluster(database).forget()
            return database.name

    name = run_audited(settings, "cluster.forget", "cluster", forgotten)
    print(f"Forgot what the nodes on the database {name} agreed on; the next node that starts decides anew.")


def _yes_option(parser: Parser) -> None:
    parser.add_flag("--yes", help="Do not ask for a confirmation.")


COMMANDS = {
    "cluster": Group(
        "Show or forget what all nodes on one database agree on.",
        {
            "show": Command(
                show,
                "Show what all nodes agree on, which nodes run, and who holds which lease.\n\nOf the secret key, the beginning of its "
                "fingerprint is shown, next to that of the key here.",
                (json_option,),
            ),
            "forget": Command(
                forget,
                "Forget what all nodes agree on, so that the next start decides anew.\n\nUse it if the secret key is lost, or "
                "to change a setting that is equal on all nodes. Credentials that were encrypted with another key stay "
                "unreadable: add those connections again.",
                (_yes_option, force_option),
            ),
        },
    )
}
