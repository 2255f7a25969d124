"""Searches below a folder, page by page."""

from datetime import UTC, datetime
from typing import TypedDict

from portico.client.auth.session import AuthSession
from portico.client.entries import Entry, Page, page_of
from portico.client.http.effects import Operation, Request
from portico.client.paths import clean, target


class Criteria(TypedDict, total=False):
    name: str
    """A part of the name, or a pattern if it has one of `*?[`."""
    match_case: bool
    type: str
    """`file`, `folder`, or the beginning of a content type, like `image/`."""
    min_size: int
    max_size: int
    """Bytes."""
    modified_after: datetime
    modified_before: datetime


def page(session: AuthSession, path: str, criteria: Criteria, cursor: str | None) -> Operation[Page[Entry]]:
    address = target(
        clean(path),
        action="SEARCH",
        name=criteria.get("name"),
        case="match" if criteria.get("match_case") else None,
        type=criteria.get("type"),
        minSize=criteria.get("min_size"),
        maxSize=criteria.get("max_size"),
        modifiedAfter=_moment(criteria.get("modified_after")),
        modifiedBefore=_moment(criteria.get("modified_before")),
        cursor=cursor,
    )
    return page_of((yield from session.request(Request("GET", address))).json(), cursor)


def _moment(moment: datetime | None) -> str | None:
    """A time without a zone is local, as everywhere in Python."""
    return None if moment is None else moment.astimezone(UTC).isoformat()
