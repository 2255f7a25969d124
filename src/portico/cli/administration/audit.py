"""`portico audit …`: search the audit log, in its file or in the database."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, BinaryIO

import msgspec

from portico.cli.administration.accounts import read_accounts
from portico.cli.administration.home import existing
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, show_list
from portico.cli.console.parser import Command, Group, option, whole_number
from portico.model import timestamps
from portico.model.errors import NotPossible

MAX_LINES = 100_000
_BLOCK = 256 * 1024


def list_(options: SimpleNamespace) -> None:
    settings = existing(options.home)
    found: Sequence[Mapping[str, Any]]
    if settings.audit_in_database:
        from portico.store.audit_lines import find_lines

        wanted = {"user": options.user, "action": options.action, "since": options.since, "limit": options.limit}
        found = read_accounts(options.home, lambda accounts: find_lines(accounts.database, **wanted))
    elif settings.audit_file in (None, "stdout"):
        place = "off" if settings.audit_file is None else "written to standard output"
        raise NotPossible(
            f"The audit log is {place}, so it can't be searched; set audit.log to a file or to 'database'."
        )
    else:
        found = _in_file(settings.audit_file, options)
    rows = found if options.as_json else [_facts(line) for line in found]
    show_list(rows, as_json=options.as_json, empty="No audit lines match.")


def _in_file(file: str, options: SimpleNamespace) -> list[Mapping[str, Any]]:
    """The newest lines of the file that fit, the oldest of them first. Files that were rotated away are not read."""
    oldest = timestamps.from_datetime(datetime.now(UTC) - options.since) if options.since else ""
    found: list[Mapping[str, Any]] = []
    with suppress(FileNotFoundError), open(file, "rb") as stream:  # nothing was written yet, or it was just rotated
        for text in _backwards(stream):
            try:
                line = msgspec.json.decode(text, type=dict[str, Any])
            except msgspec.DecodeError:
                continue  # torn on a full disk
            if line.get("time", "") < oldest:
                break
            user = str(line.get("user", "")).casefold()
            if options.user in (None, user) and options.action in (None, line.get("action")):
                found.append(line)
            if len(found) == options.limit:
                break
    return found[::-1]


def _backwards(stream: BinaryIO) -> Iterator[bytes]:
    position, rest = stream.seek(0, os.SEEK_END), b""
    while position:
        length = min(_BLOCK, position)
        position -= length
        stream.seek(position)
        rest, *lines = (stream.read(length) + rest).split(b"\n")
        yield from filter(None, reversed(lines))
    if rest:
        yield rest


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
