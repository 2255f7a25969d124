"""Listings: pages of a folder, a whole folder or tree as lines of JSON, and single entries."""

from collections.abc import AsyncGenerator

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.digests import digest_text, wants_sha256
from portico.api.download import StreamedResponse
from portico.api.problems import as_problem, problem_body
from portico.api.requests import Query, context_of, services_of
from portico.api.schemas import (
    CursorBody,
    EndBody,
    EntryBody,
    JsonResponse,
    current_folder,
    entry_bodies,
    entry_body,
    page_body,
)
from portico.model.entries import Entry, Page
from portico.model.errors import InvalidRequest
from portico.model.paths import Path
from portico.operations.files.walks import MAX_PAGE, WalkedPage
from portico.operations.operations import Operations

LINES = "application/x-ndjson"
_LINES_HEADERS = {"Content-Type": LINES, "Cache-Control": "no-store"}

_encoded_lines = msgspec.json.Encoder().encode_lines


async def list_folder(
    request: Request, operations: Operations, path: Path, query: Query, *, file_first: bool = False
) -> Response:
    cursor, with_digests = query.get("cursor"), query.wants_digest()
    file_first = file_first and cursor is None and not path.as_folder
    if wants_lines(request):
        return await _walk(request, operations, path, query, file_first=file_first)
    if query.flag("recursive"):
        raise InvalidRequest(f"To list a folder with everything below it, send the header 'Accept: {LINES}'.")
    page = await operations.files.list(path, query.page_size(), cursor, file_first=file_first)
    return await show_page(operations, path, page, first=cursor is None, with_digests=with_digests)


async def show_page(
    operations: Operations, path: Path, page: Page, *, first: bool = True, with_digests: bool = False
) -> Response:
    body = page_body(path, page, first=first)
    if with_digests:
        await _add_digests(operations, path, page.entries, body.content)
    return JsonResponse(body)


async def stat(request: Request, operations: Operations, path: Path, query: Query) -> Response:
    with_digest = query.wants_digest() or wants_sha256(request)
    entry = await operations.files.stat(path)
    body = entry_body(path, entry)
    if with_digest or await operations.files.has_digests(path):
        await _add_digests(operations, path.parent, [entry], [body])
    return JsonResponse(body)


async def _add_digests(operations: Operations, folder: Path, entries: list[Entry], bodies: list[EntryBody]) -> None:
    known = await operations.files.digests(folder, entries)
    for body in bodies:
        if body.type == "REGULAR" and (sha256 := known.get(body.name)):
            body.digest = digest_text(sha256)


def wants_lines(request: Request) -> bool:
    """Whether the client names this format among those that it accepts."""
    accepted = request.headers.get("Accept", "")
    if LINES not in accepted.lower():
        return False
    ranges = (part.lower().replace(" ", "").split(";") for part in accepted.split(","))
    return any(name == LINES and "q=0" not in rest for name, *rest in ranges)


async def _walk(
    request: Request, operations: Operations, folder: Path, query: Query, *, file_first: bool = False
) -> Response:
    cursor, with_digests = query.get("cursor"), query.wants_digest()
    context_of(request).action = "walk"
    pages = operations.files.walk(
        folder, query.page_size(MAX_PAGE), cursor, recursive=query.flag("recursive"), file_first=file_first
    )
    page = await anext(pages)  # until here, an error is a response like any other

    async def lines() -> AsyncGenerator[bytes]:
        current: list[msgspec.Struct] = [current_folder(folder)] if cursor is None else []
        try:
            yield await _lines(operations, page, current, with_digests=with_digests)
            async for each in pages:
                yield await _lines(operations, each, [], with_digests=with_digests)
        except Exception as error:
            yield _encoded_lines([problem_body(request, as_problem(request, error))])
        finally:
            await pages.aclose()

    chunks = lines()
    if request.method == "HEAD":
        await pages.aclose()
        return Response(headers=_LINES_HEADERS)
    if page.ended:
        return Response(b"".join([chunk async for chunk in chunks]), headers=_LINES_HEADERS)
    return StreamedResponse(chunks, services_of(request).gateway.scheduler, _LINES_HEADERS, abandons=True)


async def _lines(operations: Operations, page: WalkedPage, lines: list[msgspec.Struct], *, with_digests: bool) -> bytes:
    for folder, entries in page.groups:
        bodies = entry_bodies(folder, entries, EntryBody)
        if with_digests:
            await _add_digests(operations, folder, entries, bodies)
        lines += bodies
    if page.ended:
        lines.append(EndBody())
    elif page.cursor is not None:
        lines.append(CursorBody(page.cursor))
    return _encoded_lines(lines)
