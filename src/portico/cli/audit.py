"""`portico audit …`: search the audit log in the database."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from portico.cli.accounts import Accounts, read_accounts
from portico.cli.exits import UsageMistake
from portico.cli.output import Facts, show_list
from portico.cli.parser import Command, Group, Parser
from portico.errors import NotPossible

if TYPE_CHECKING:
    from portico.settings import Settings

MAX_LINES = 100_000


def list_(options: SimpleNamespace) -> None:
    async def action(accounts: Accounts) -> list[Mapping[str, Any]]:
        from portico.store.audit_lines import find_lines

        if not accounts.settings.audit_in_database:
            raise NotPossible(_elsewhere(accounts.settings))
        return list(
            await find_lines(
                accounts.database,
                user=options.user,
                action=options.action,
                since=options.since,
                limit=options.limit,
            )
        )

    found = read_accounts(options.home, action)
    rows = found if options.as_json else [_facts(line) for line in found]
    show_list(rows, as_json=options.as_json, empty="No audit line fits.")


def _elsewhere(settings: "Settings") -> str:
    place = "off" if settings.audit_file is None else f"written to {settings.audit_file}"
    return (
        f"The audit log is {place}, and not kept in the database, so it cannot be searched here; "
        "set audit.log=database, or add ',database' to it."
    )


def _facts(line: Mapping[str, Any]) -> Facts:
    paths = [line[key] for key in ("path", "target", "subject") if key in line]
    return {
        "time": line["time"],
        "node": line.get("node"),
        "user": line.get("user"),
        "client": line.get("client"),
        "action": line["action"],
        "outcome": line["outcome"],
        "subject": " → ".join(paths),
    }


def _duration(text: str) -> timedelta:
    from portico import setting_parsers

    try:
        return setting_parsers.duration(text)
    except ValueError as error:
        raise UsageMistake(f"--since {error}.") from None


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MAX_LINES and len(text) <= 9):
        raise UsageMistake(f"--limit must be a whole number from 1 to {MAX_LINES}.")
    return int(text)


def _filters(parser: Parser) -> None:
    parser.add_option("--user", metavar="NAME", help="Only lines of this user, in upper or lower case.")
    parser.add_option("--action", metavar="ACTION", help="Only lines of this action, like upload or sign-in.")
    parser.add_option("--since", metavar="TIME", convert=_duration, help="Only the last 45m, 1h or 30d.")
    parser.add_option(
        "--limit", metavar="N", convert=_limit, default=100, help="At most so many of the newest lines."
    )
    parser.add_flag("--json", dest="as_json", help="Print the whole lines as JSON.")


COMMANDS = {
    "audit": Group(
        "Search the audit log, if it is in the database.",
        {
            "list": Command(
                list_,
                "List who did what, the newest line last.",
                (_filters,),
                "Example:\n  portico audit list --user ann --action delete --since 7d",
            )
        },
        "Example:\n  portico audit list --user ann --action delete --since 7d",
    )
}
