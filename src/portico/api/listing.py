"""Listing a folder, and describing one entry."""

from starlette.requests import Request
from starlette.responses import Response

from portico.api.digests import digest_text, wants_sha256
from portico.api.requests import Query
from portico.api.schemas import EntryBody, JsonResponse, entry_body, page_body
from portico.entries import Entry
from portico.operations import Operations
from portico.paths import Path


async def list_folder(
    operations: Operations, path: Path, query: Query, *, file_first: bool = False
) -> Response:
    cursor, with_digests = query.cursor(), query.wants_digest()
    page = await operations.list(
        path, query.page_size(), cursor, file_first=file_first and cursor is None and not path.as_folder
    )
    body = page_body(path, page, first=cursor is None)
    if with_digests:
        await _add_digests(operations, path, page.entries, body.content)
    return JsonResponse(body)


async def stat(request: Request, operations: Operations, path: Path, query: Query) -> Response:
    with_digest = query.wants_digest() or wants_sha256(request)
    entry = await operations.stat(path)
    body = entry_body(path, entry)
    if with_digest or await operations.has_digests():
        await _add_digests(operations, path.parent, [entry], [body])
    return JsonResponse(body)


async def _add_digests(
    operations: Operations, folder: Path, entries: list[Entry], bodies: list[EntryBody]
) -> None:
    known = await operations.digests(folder, entries)
    for body in bodies:
        if body.type == "REGULAR" and (sha256 := known.get(body.name)):
            body.digest = digest_text(sha256)
