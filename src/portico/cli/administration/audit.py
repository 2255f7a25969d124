"""`portico audit …`: search the journal."""

from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from portico.cli.administration.accounts import read_accounts
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, show_list
from portico.cli.console.parser import Command, Group, option, whole_number

MAX_LINES = 100_000


def list_(options: SimpleNamespace) -> None:
    from portico.store.journal import find_lines

    wanted = {"user": options.user, "action": options.action, "since": options.since, "limit": options.limit}
    found = read_accounts(options.home, lambda accounts: find_lines(accounts.database, **wanted))
    rows = found if options.as_json else [_facts(line) for line in found]
    show_list(rows, as_json=options.as_json, empty="No audit lines match.")


def _facts(line: Mapping[str, Any]) -> Facts:
    paths = [line[key] for key in ("path", "target", "subject") if key in line]
    shown = ("time", "node", "user", "client", "action", "outcome")
    return {**{key: line.get(key) for key in shown}, "subject": " → ".join(paths)}


def _duration(text: str) -> timedelta:
    from portico.settings import parsers as setting_parsers

    try:
        return setting_parsers.duration(text)
    except ValueError as error:
        raise UsageMistake(f"--since {error}.") from None


_FILTERS = (
    option("--user", metavar="NAME", convert=str.casefold, help="Show only this user's lines; case is ignored."),
    option("--action", metavar="ACTION", help="Show only lines with this action, like upload or sign-in."),
    option("--since", metavar="TIME", convert=_duration, help="Show only the last 45m, 1h or 30d."),
    option(
        "--limit",
        metavar="N",
        convert=whole_number("--limit", MAX_LINES),
        default=100,
        help="Show at most this many of the newest lines.",
    ),
)


COMMANDS = {
    "audit": Group(
        "Search the audit log.",
        {
            "list": Command(
                list_,
                "List who did what, newest line last.",
                (*_FILTERS, JSON),
                "Example:\n  portico audit list --user ann --action delete --since 7d",
            )
        },
        "Example:\n  portico audit list --user ann --action delete --since 7d",
    )
}
