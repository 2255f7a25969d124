"""`portico held …`: what users have removed for good, and what is held of it."""

from types import SimpleNamespace

from portico.cli.administration.accounts import Accounts, audited, read_accounts, with_accounts
from portico.cli.console.output import JSON, Facts, show_list
from portico.cli.console.parser import Command, Group, flag, option, whole_number
from portico.cli.console.terminal import confirm
from portico.model import timestamps


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> list[Facts]:
        from portico.store.trash import TrashRecords

        found = await TrashRecords(accounts.database).held(options.connection, options.user, options.limit)
        return [
            {
                "id": record.id,
                "connection": record.connection,
                "path": record.path,
                "size": record.size,
                "user": record.user,
                "expires_at": timestamps.from_epoch(record.expires_at),
            }
            for record in found
        ]

    show_list(read_accounts(options.home, action), as_json=options.as_json, empty="Nothing is held.")


def purge(options: SimpleNamespace) -> None:
    whose = f" of {options.user}" if options.user else ""
    where = f" in the connection {options.connection}" if options.connection else ""
    confirm(f"What is held{whose}{where} can't be brought back then. Remove it?", yes=options.yes)

    async def action(accounts: Accounts) -> int:
        from portico.store.trash import TrashRecords

        async with audited(accounts.journal, "held.purge", options.user or options.connection or "all"):
            return await TrashRecords(accounts.database).purge_held(options.connection, options.user)

    number = with_accounts(options.home, action)
    print(f"{number} items will be removed by the gateway within ten minutes.")


_CHOICE = (
    option("--connection", metavar="NAME", help="Only in this connection."),
    option("--user", metavar="NAME", help="Only what this user has put into the trash."),
)

COMMANDS = {
    "held": Group(
        "List or remove what users have removed for good. It is held for the time that is set by trash.hold, so that "
        "'portico rewind' can bring it back.",
        {
            "list": Command(
                list_,
                "List what is held, the newest first.",
                (
                    *_CHOICE,
                    option(
                        "--limit",
                        metavar="N",
                        convert=whole_number("--limit", 100_000),
                        default=100,
                        help="List at most this many.",
                    ),
                    JSON,
                ),
            ),
            "purge": Command(
                purge, "Remove it before its time.", (*_CHOICE, flag("--yes", help="Don't ask for confirmation."))
            ),
        },
        "Example:\n  portico held list --user ann",
    )
}
