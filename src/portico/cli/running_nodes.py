"""A refusal to change what running nodes rely on."""

from typing import TYPE_CHECKING

from portico.cli.parser import Parser
from portico.errors import NotPossible, Unavailable

if TYPE_CHECKING:
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
