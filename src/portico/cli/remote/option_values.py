"""What people write as the value of an option."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from portico import setting_parsers
from portico.cli.exits import UsageMistake

_SPAN = re.compile("([0-9]+[smhdw])+")

T = TypeVar("T")


def parsed(option: str, text: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of the value; `UsageMistake` names the option if that is a `ValueError`."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageMistake(f"{option} {str(error).partition(';')[0]}.") from None


def ago(text: str) -> datetime:
    """An age, or a date or time, which is local unless it has a zone."""
    return _moment(text, -1, "must be an age like 7d or 12h, or a date like 2026-11-14")


def from_now(text: str) -> datetime:
    """A time from now, or a date or time, which is local unless it has a zone."""
    return _moment(text, 1, "must be a time from now like 7d or 12h, or a date like 2026-12-24")


def _moment(text: str, direction: int, advice: str) -> datetime:
    try:
        if _SPAN.fullmatch(text):
            return datetime.now(UTC) + direction * setting_parsers.duration(text)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(advice) from None
