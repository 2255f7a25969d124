"""Listing a folder, and describing one entry."""

from starlette.responses import Response

from portico.api.requests import Query
from portico.api.schemas import JsonResponse, entry_body, page_body
from portico.operations import Operations
from portico.paths import Path


async def list_folder(
    operations: Operations, path: Path, query: Query, *, file_first: bool = False
) -> Response:
    cursor = query.cursor()
    page = await operations.list(
        path, query.page_size(), cursor, file_first=file_first and cursor is None and not path.as_folder
    )
    return JsonResponse(page_body(path, page, first=cursor is None))


async def stat(operations: Operations, path: Path) -> Response:
    return JsonResponse(entry_body(path, await operations.stat(path)))
