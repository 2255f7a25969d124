"""`portico trash`: what was deleted or replaced on the gateway."""

from portico.cli.console.output import json_option
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.remote.arguments import profile_option
from portico.cli.remote.command import runs


def _items(parser: Parser) -> None:
    parser.add_paths(
        "ITEM …", {"ITEM": "An id as 'trash list' shows it, or a path: then the last one of it."}, at_least=1
    )


def _restore(parser: Parser) -> None:
    parser.add_flag("--rename", help="If the name is taken, keep both: name (1).ext.")
    parser.add_flag("--replace", help="If the name is taken, replace what has it, which goes to the trash.")


def _empty(parser: Parser) -> None:
    parser.add_flag("-y", "--yes", help="Do not ask.")


COMMANDS = {
    "trash": Group(
        "Bring back what was deleted or replaced, or remove it for good.",
        {
            "list": Command(
                runs("trash", "list_trash"),
                "List what can be brought back, the newest first: id, time, size, path.",
                (json_option, profile_option),
            ),
            "restore": Command(
                runs("trash", "restore_items"),
                "Bring items back to where they were.",
                (_items, _restore, json_option, profile_option),
                "Examples:\n  portico trash restore /reports/2026.csv\n"
                "  portico trash restore --replace 019d8a2b4c5d6e7f80911223",
            ),
            "remove": Command(
                runs("trash", "remove_items"), "Remove items for good.", (_items, profile_option)
            ),
            "empty": Command(
                runs("trash", "empty_trash"),
                "Remove everything in the trash for good.",
                (_empty, profile_option),
            ),
        },
    )
}
