"""`portico find`."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TypeVar

from portico import setting_parsers
from portico.cli.exits import DONE, UsageMistake
from portico.cli.remote.connect import connect
from portico.cli.remote.listing import shown
from portico.cli.remote.paths import report_missing
from portico.client.search import Criteria

_AGE = re.compile("([0-9]+[smhdw])+")

T = TypeVar("T")


def find(options: SimpleNamespace) -> int:
    show = shown(options)
    criteria = _criteria(options)
    with connect(options) as client:
        for path in options.paths or ["/"]:
            with report_missing(path, folder=True):
                for entry in client.search(path, **criteria):
                    show(entry.path, entry)
    return DONE


def _criteria(options: SimpleNamespace) -> Criteria:
    criteria: Criteria = {}
    if options.name:
        criteria["name"] = options.name
        criteria["match_case"] = options.match_case
    if options.type:
        criteria["type"] = {"f": "file", "d": "folder"}.get(options.type, options.type)
    if options.larger:
        criteria["min_size"] = _parsed("--larger", options.larger, setting_parsers.size)
    if options.smaller:
        criteria["max_size"] = _parsed("--smaller", options.smaller, setting_parsers.size)
    if options.newer:
        criteria["modified_after"] = _parsed("--newer", options.newer, _moment)
    if options.older:
        criteria["modified_before"] = _parsed("--older", options.older, _moment)
    return criteria


def _parsed(option: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageMistake(f"{option} {str(error).partition(';')[0]}.") from None


def _moment(text: str) -> datetime:
    """An age, or a date or time, which is local unless it has a zone."""
    try:
        if _AGE.fullmatch(text):
            return datetime.now(UTC) - setting_parsers.duration(text)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError("must be an age like 7d or 12h, or a date like 2026-11-14") from None
