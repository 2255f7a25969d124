"""`portico receipt`: fetches the key of a gateway, and verifies receipts with it."""

from portico.cli.console.output import json_option
from portico.cli.console.parser import Command, Group, Parser
from portico.cli.remote.arguments import profile_option
from portico.cli.remote.command import runs


def _key(parser: Parser) -> None:
    parser.add_option(
        "-o", "--output", metavar="FILE", help="Write the key to a file, too; - is standard output."
    )


def _verify(parser: Parser) -> None:
    parser.add_argument("file", "FILE", help="The file that was uploaded, or downloaded again.")
    parser.add_argument(
        "receipt", "RECEIPT", help="A file with the receipt or the response that has it; - is standard input."
    )
    parser.add_option(
        "--key",
        metavar="FILE",
        help="The gateway's key, as a JWK set. Default: those that 'receipt key' fetched.",
    )


COMMANDS = {
    "receipt": Group(
        "Verify receipts: what a gateway says that it stored.",
        {
            "key": Command(
                runs("receipts", "fetch_key"),
                "Fetch the gateway's key for receipts, and keep it, so that receipts can be verified without the gateway.",
                (_key, profile_option),
            ),
            "verify": Command(
                runs("receipts", "verify_receipt"),
                "Check that a receipt was signed by the gateway, and that a file is the one it speaks of. Nothing is sent.",
                (_verify, json_option),
                "Needs the package cryptography: pip install 'portico-gateway[receipts]'.\n\n"
                "Example:\n"
                "  portico receipt key                                      # once\n"
                "  portico put --json report.pdf /reports/ > report.receipt\n"
                "  portico receipt verify report.pdf report.receipt         # without the gateway",
            ),
        },
    )
}
