"""Conditional requests (RFC 9110, 13): what the headers ask of a file's version, and whether it is so."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from starlette.requests import Request

from portico.model.errors import InvalidRequest
from portico.operations.files.conditions import ANY, WriteCondition
from portico.operations.files.files import OnConflict


def joined(request: Request, name: str) -> str | None:
    """A list may be spread over several lines (RFC 9110, 5.3)."""
    lines = request.headers.getlist(name)
    return ", ".join(lines) if lines else None


def names(condition: str, etag: str | None) -> bool:
    """Whether the list names this version. A weak tag never does."""
    return condition.strip() == "*" or (etag is not None and f'"{etag}"' in _members(condition))


def is_known(request: Request, etag: str | None) -> bool | None:
    """Whether `If-None-Match` names this version, weakly or not; None without that header."""
    known = joined(request, "If-None-Match")
    return None if known is None else names(known.replace("W/", ""), etag)


def date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _members(condition: str) -> list[str]:
    return [member.strip() for member in condition.split(",")]


def write_condition(request: Request, on_conflict: OnConflict | None) -> WriteCondition:
    """What the headers of an upload say about the file that it may replace."""
    match, none_match = joined(request, "If-Match"), joined(request, "If-None-Match")
    if match is not None and on_conflict not in (None, OnConflict.REPLACE):
        raise InvalidRequest(
            f"If-Match asks to replace a file, but onConflict={on_conflict} doesn't. Send only one of them."
        )
    return WriteCondition.of(
        on_conflict,
        None if match is None else _tags(match),
        None if none_match is None else _tags(none_match.replace("W/", "")),
        None if match is not None else date(request.headers.get("If-Unmodified-Since")),
    )


def _tags(condition: str) -> frozenset[str]:
    """The versions in a list; `*` is any. A weak tag is no version."""
    members = _members(condition)
    return frozenset(
        ANY if each == ANY else each[1:-1]
        for each in members
        if each == ANY or (len(each) > 2 and each[0] == each[-1] == '"')
    )
