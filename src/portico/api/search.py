"""`action=SEARCH`: what is below a folder and meets some criteria."""

from enum import StrEnum

from starlette.responses import Response

from portico import timestamps
from portico.api.requests import Query
from portico.api.schemas import JsonResponse, SearchBody, entry_body
from portico.errors import InvalidRequest
from portico.operations import Operations
from portico.operations.searching import Criteria
from portico.paths import Path

_MAX_SIZE = 1000
_MAX_NAME = 255


class _Case(StrEnum):
    IGNORE = "ignore"
    MATCH = "match"


async def search(operations: Operations, folder: Path, query: Query) -> Response:
    size = min(query.page_size(default=_MAX_SIZE), _MAX_SIZE)
    page = await operations.search(folder, _criteria(query), size, query.cursor())
    return JsonResponse(
        SearchBody(page.cursor, page.passed, [entry_body(path, entry) for path, entry in page.found])
    )


def _criteria(query: Query) -> Criteria:
    name, kind = query.get("name") or "", query.get("type") or ""
    if len(name) > _MAX_NAME:
        raise InvalidRequest(f"The parameter 'name' may have {_MAX_NAME} characters.")
    return Criteria(
        name,
        match_case=query.choice("case", _Case) is _Case.MATCH,
        is_folder=kind == "folder" if kind in ("file", "folder") else None,
        content_type=_media_type(kind),
        min_size=query.number("minSize"),
        max_size=query.number("maxSize"),
        modified_after=_moment(query, "modifiedAfter"),
        modified_before=_moment(query, "modifiedBefore"),
    )


def _media_type(kind: str) -> str:
    if kind in ("", "file", "folder"):
        return ""
    if "/" not in kind:
        raise InvalidRequest(
            "The parameter 'type' must be file, folder, or a media type like image/ or text/csv."
        )
    return kind


def _moment(query: Query, name: str) -> str | None:
    value = query.get(name)
    if value is None:
        return None
    try:
        return timestamps.from_iso(value)
    except ValueError:
        raise InvalidRequest(
            f"The parameter '{name}' must be a time like 2026-11-14 or 2026-11-14T09:30:00Z."
        ) from None
