"""`portico audit …`: search the journal, export it, and verify it."""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from portico.cli.administration.accounts import Accounts, read_accounts
from portico.cli.administration.audit_verification import verify
from portico.cli.console.exits import UsageMistake
from portico.cli.console.output import JSON, Facts, show_list
from portico.cli.console.parser import Command, Group, flag, one_of, option, whole_number
from portico.cli.console.terminal import notice, standard_output
from portico.cli.console.times import check_order, moment
from portico.model.paths import Path
from portico.model.visible_text import visible

if TYPE_CHECKING:
    from portico.store.journal_search import Search

MAX_LINES = 100_000
_PAGE = 1000
_FORMULA = ("=", "+", "-", "@")
"""What a cell begins with that a spreadsheet may take for a formula. Tabs and line ends are escaped."""
Line = Mapping[str, Any]
Export = Callable[[Sequence[Line]], str]


def list_(options: SimpleNamespace) -> None:
    form = options.form or ("json" if options.as_json else "table")
    if options.as_json and form != "json":
        raise UsageMistake("--json and --format can't be combined.")
    if options.all and form not in _EXPORTS:
        raise UsageMistake(f"--all needs --format {' or '.join(_EXPORTS)}.")
    if (options.below or options.path) and not options.connection:
        raise UsageMistake("--path and --below need --connection NAME.")
    if options.below and options.path:
        raise UsageMistake("--path and --below can't be combined.")
    check_order(options.since, options.until)

    async def action(accounts: Accounts) -> list[Line]:
        pages = _pages(accounts, options)
        if form not in _EXPORTS:
            return [line async for page in pages for line in page][::-1]
        out = standard_output()
        if form == "csv":
            out.write(_cells([_columns()]))
        async for page in pages:
            out.write(_EXPORTS[form](page))
        return []

    found = read_accounts(options.home, action)
    if form not in _EXPORTS:
        rows = found if form == "json" else [_facts(line) for line in found]
        show_list(rows, as_json=form == "json", empty="No audit lines match.")


async def _pages(accounts: Accounts, options: SimpleNamespace) -> AsyncIterator[Sequence[Line]]:
    """The newest lines first, as many as are wanted."""
    from portico.operations.audit_search import AuditSearch

    audit = AuditSearch(accounts.database, accounts.connections)
    search, cursor, left = await _search(audit, options), None, options.limit
    while left > 0:
        page = await audit.find(search, _PAGE if options.all else min(left, _PAGE), cursor)
        yield page.lines
        if (cursor := page.cursor) is None:
            return
        left -= 0 if options.all else len(page.lines)
    if not options.as_json and options.form in (None, "table"):
        notice(f"Only the newest {_lines(options.limit)} shown. For more, use --limit, or --all with --format csv.")


async def _search(audit: Any, options: SimpleNamespace) -> "Search":
    from portico.store.journal_search import Search

    place = None
    if options.connection is not None:
        path = Path.parse(options.path or options.below or "/")
        place = await audit.place(options.connection, path)
    return Search(
        **{name: getattr(options, name) for name in _EQUAL},
        since=options.since,
        until=options.until,
        place=place,
        is_below=options.path is None,
    )


def _lines(count: int) -> str:
    return "line is" if count == 1 else f"{count} lines are"


def _facts(line: Line) -> Facts:
    paths = [line[key] for key in ("path", "target", "subject") if key in line]
    who, what = ("time", "node", "user"), ("client", "action", "outcome")
    # As in the options of `portico rewind`. A link comes last: a key or a session may have made it.
    through = next((f"{kind} {line[kind]}" for kind in ("key", "session", "link") if kind in line), None)
    return {
        **{key: line.get(key) for key in who},
        "through": through,
        **{key: line.get(key) for key in what},
        "subject": " → ".join(paths),
    }


def _columns() -> Sequence[str]:
    from portico.observability.audit import AuditLine

    return AuditLine.__struct_fields__


def _csv(lines: Sequence[Line]) -> str:
    columns = _columns()
    return _cells([[_cell(line.get(column, "")) for column in columns] for line in lines])


def _cell(value: object) -> str:
    text = visible(" ".join(value) if isinstance(value, list) else str(value))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cells(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _json_lines(lines: Sequence[Line]) -> str:
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


_EXPORTS: Mapping[str, Export] = {"csv": _csv, "jsonl": _json_lines}
_FORMATS = ("table", "json", *_EXPORTS)


_EQUAL = {
    "user": option("--user", metavar="NAME", help="Show only this user's lines; case is ignored."),
    "key": option("--key", metavar="ID", help="Show only what was done with this API key."),
    "link": option("--link", metavar="ID", help="Show only what was done with this share link."),
    "session": option("--session", metavar="ID", help="Show only lines of this session."),
    "address": option("--address", metavar="ADDRESS", help="Show only lines from this address."),
    "action": option("--action", metavar="ACTION", help="Show only lines with this action, like upload or sign-in."),
    "outcome": option("--outcome", metavar="OUTCOME", help="Show only lines with this outcome, like forbidden."),
}
_FILTERS = (
    *_EQUAL.values(),
    option(
        "--since",
        metavar="TIME",
        convert=moment("--since"),
        help="Show only the last 45m, 1h or 30d, or lines since a time in UTC, like 2027-01-31 or 2027-01-31T09:00.",
    ),
    option("--until", metavar="TIME", convert=moment("--until"), help="Show only lines before this time."),
    option("--connection", metavar="NAME", help="Show only lines about files of this connection."),
    option("--path", metavar="PATH", help="Show only lines about this path of the connection."),
    option("--below", metavar="PATH", help="Show only lines about this folder of the connection and everything in it."),
    option(
        "--limit",
        metavar="N",
        convert=whole_number("--limit", MAX_LINES),
        default=100,
        help="Show at most this many of the newest lines.",
    ),
    flag("--all", help="Export all lines that match."),
    option(
        "--format",
        dest="form",
        metavar="FORMAT",
        choices=_FORMATS,
        convert=one_of(_FORMATS, f"{{}} is not a format; use {', '.join(_FORMATS)}."),
        help="Print a table, json, csv or jsonl. csv and jsonl begin with the newest line.",
    ),
)


COMMANDS = {
    "audit": Group(
        "Search and verify the audit log.",
        {
            "list": Command(
                list_,
                "List who did what, newest line last.",
                (*_FILTERS, JSON),
                "Example:\n  portico audit list --user ann --action delete --since 7d\n"
                "  portico audit list --connection local --below /projects --all --format csv >projects.csv",
            ),
            "verify": Command(
                verify,
                "Verify that no line was removed, changed or reordered.\n\nThe exit code is 1 if one was. Lines "
                "after the last checkpoint of a process, which signs one at least every minute, can't be proven yet.",
                (
                    option(
                        "--log",
                        metavar="FILE",
                        default=[],
                        repeatable=True,
                        help="Compare the checkpoints in this file of the audit log; can be repeated. Default: the "
                        "file of audit.log, if there is one.",
                    ),
                    flag("--no-log", help="Don't compare with the audit log."),
                    JSON,
                ),
                "Example:\n  portico audit verify --log /var/lib/portico/audit.log",
            ),
        },
        "Example:\n  portico audit list --user ann --action delete --since 7d",
    )
}
