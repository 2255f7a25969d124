"""`portico share`: links for people without an account."""

from portico.cli.console.output import json_option
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.remote.arguments import profile_option
from portico.cli.remote.command import runs

_KINDS = ("download", "request", "both")


def _add(parser: Parser) -> None:
    parser.add_argument("path", "PATH", help="The file or folder to share.")
    parser.add_option(
        "--kind",
        metavar="KIND",
        default="download",
        choices=_KINDS,
        help="What guests may do: download, request (send files and see nothing), or both.",
    )
    parser.add_option("--title", metavar="TEXT", help="A title that guests see.")
    parser.add_option("--note", metavar="TEXT", help="A message to guests.")
    parser.add_flag("--password-stdin", help="Read a password for the link from standard input.")
    parser.add_option("--expires", metavar="WHEN", help="A time from now, like 7d or 12h, or a date.")
    parser.add_option("--max-downloads", metavar="N", help="How many downloads there may be.")
    parser.add_option("--max-uploads", metavar="N", help="How many files may be sent.")
    parser.add_option("--max-bytes", metavar="SIZE", help="How much may be sent in all, like 10GiB.")
    parser.add_option("--types", metavar="LIST", help="What may be sent: .pdf,image/*")
    parser.add_flag("--no-name", help="Do not ask senders for their name.")
    parser.add_flag("--folder-per-sender", help="A folder for each sender.")


def _id(parser: Parser) -> None:
    parser.add_argument("id", "ID", help="From 'portico share list'.")


COMMANDS = {
    "share": Group(
        "Share files and folders with people without an account.",
        {
            "add": Command(
                runs("shares", "add"),
                "Make a share link, and print its address, which is shown only now.",
                (_add, profile_option, json_option),
                "Examples:\n"
                "  portico share add /reports/2026.pdf --expires 7d --max-downloads 1\n"
                "  portico share add /inbox --kind request --title 'Your documents' --folder-per-sender",
            ),
            "list": Command(runs("shares", "list_"), "List your links.", (profile_option, json_option)),
            "address": Command(
                runs("shares", "address"),
                "Give a link a new address, and print it. The former one does not work any more, also for those who have opened it.",
                (_id, profile_option, json_option),
            ),
            "end": Command(
                runs("shares", "end"), "End a link: nobody can use it any more.", (_id, profile_option)
            ),
            "log": Command(
                runs("shares", "log"),
                "Show who did what with a link, the newest first.",
                (_id, profile_option, json_option),
            ),
        },
    )
}
