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

    empty = f"Nothing is held{_chosen(options)}."
    show_list(read_accounts(options.home, action), as_json=options.as_json, empty=empty)


def purge(options: SimpleNamespace) -> None:
    chosen = _chosen(options)
    confirm(f"Remove everything that is held{chosen}? It can't be brought back afterwards.", yes=options.yes)

    async def action(accounts: Accounts) -> int:
        from portico.store.trash import TrashRecords

        records = TrashRecords(accounts.database)
        if not await records.held(options.connection, options.user, 1):
            await _require_known(accounts, options)
        async with audited(accounts.journal, "held.purge", options.user or options.connection or "all"):
            return await records.purge_held(options.connection, options.user)

    number = with_accounts(options.home, action)
    if number:
        print(f"The gateway will begin to remove {number} item{'s' if number != 1 else ''} within ten minutes.")
    else:
        print(f"Nothing is held{chosen}.")


async def _require_known(accounts: Accounts, options: SimpleNamespace) -> None:
    """Otherwise a typing mistake looks as if nothing was held."""
    if options.user:
        await accounts.users.get(options.user)
    if options.connection:
        await accounts.connections.get(options.connection)


def _chosen(options: SimpleNamespace) -> str:
    whose = f" of {options.user}" if options.user else ""
    return whose + (f" in the connection {options.connection}" if options.connection else "")


_CHOICE = (
    option("--connection", metavar="NAME", help="Only those in this connection."),
    option("--user", metavar="NAME", help="Only those that this user deleted or replaced."),
)

COMMANDS = {
    "held": Group(
        "List or purge what users have removed for good. It is held for the time set by trash.hold, so that "
        "'portico rewind' can bring it back.",
        {
            "list": Command(
                list_,
                "List held files and folders, the newest first.",
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
                purge,
                "Remove held files and folders before their time.",
                (*_CHOICE, flag("--yes", help="Don't ask for confirmation.")),
            ),
        },
        "Example:\n  portico held list --user ann",
    )
}
