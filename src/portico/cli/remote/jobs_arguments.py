"""`portico jobs`: long changes on the gateway, also those that the page or another program began."""

from portico.cli.console.output import json_option
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.remote.arguments import profile_option
from portico.cli.remote.command import runs


def _id(parser: Parser) -> None:
    parser.add_argument("id", "ID", help="The id of a job, as the list shows it.")


COMMANDS = {
    "jobs": Group(
        "List and cancel long moves, copies, deletions, restores and removals from the trash on the gateway.",
        {
            "list": Command(
                runs("jobs", "list_jobs"), "List your jobs, the newest first.", (json_option, profile_option)
            ),
            "cancel": Command(
                runs("jobs", "cancel_job"),
                "Cancel a job, or forget one that has ended.",
                (_id, profile_option),
            ),
        },
        "Example:\n  portico jobs list",
    )
}
