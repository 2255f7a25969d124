"""Actions on a path that send no file: search, change, archive, thumbnail. For listings, see `listing`."""

from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api import conditions
from portico.api.download import DOWNLOAD_HEADERS, StreamedResponse, content_disposition, refuse_to_be_run
from portico.api.jobs import carried_out
from portico.api.request_body import read_small
from portico.api.requests import Query, address_of, operations_of, path_of, services_of, single_header
from portico.api.schemas import ActivityBody, EventBody, JsonResponse, SearchBody, entry_body, filled
from portico.model import timestamps
from portico.model.errors import InvalidRequest, UnsupportedMediaType
from portico.model.paths import Path
from portico.operations.activity import Event
from portico.operations.actors.auditing import ChangeResult
from portico.operations.files.files import OnConflict
from portico.operations.files.search import Criteria
from portico.operations.operations import Operations
from portico.operations.thumbnails.thumbnails import MEDIA_TYPE, SIZES

PAGE_COUNT = "X-Page-Count"


async def thumbnail(request: Request, operations: Operations, path: Path, query: Query) -> Response:
    refuse_to_be_run(request)
    size = query.page_size(SIZES[0])
    if size not in SIZES:
        raise InvalidRequest(f"The parameter 'size' must be {' or '.join(map(str, SIZES))}.")
    page = query.number("page", least=1) or 1
    planned = await operations.files.plan_thumbnail(path, size, page)
    headers = {**DOWNLOAD_HEADERS, "ETag": f'"{planned.etag}"'}
    if conditions.is_known(request, planned.etag):
        return Response(status_code=304, headers=headers)
    if request.method == "HEAD":  # not made, and not counted as a guest's download
        return Response(headers=headers, media_type=MEDIA_TYPE)
    made = await operations.files.make_thumbnail(planned)
    headers[PAGE_COUNT] = str(made.pages)
    return Response(made.content, headers=headers, media_type=MEDIA_TYPE)


_MAX_BODY = 4 * 2**20
_MAX_PATHS = 10_000
_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"


class _Chosen(msgspec.Struct):
    paths: list[str]


async def archive(request: Request, operations: Operations, folder: Path, chosen: Sequence[Path] = ()) -> Response:
    refuse_to_be_run(request)
    made = await operations.files.archive(folder, chosen)
    headers = {
        **DOWNLOAD_HEADERS,
        "Content-Type": "application/zip",
        "Content-Disposition": content_disposition(made.name),
    }
    if made.size is not None:
        headers["Content-Length"] = str(made.size)
    if request.method == "HEAD":
        await made.close()
        return Response(headers=headers)
    return StreamedResponse(made.chunks(), services_of(request).gateway.scheduler, headers)


async def archive_of_chosen(request: Request, query: Query) -> Response:
    """`POST`: the body names what is to be in the archive, as paths below the folder."""
    operations = await operations_of(request, query.get("ticket"))
    folder = path_of(request)
    return await archive(request, operations, folder, [_below(folder, text) for text in await _paths(request)])


async def _paths(request: Request) -> list[str]:
    """From JSON, or from a form, which is all that a browser can send when it is to save the response as a file."""
    kind = (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower()
    if kind not in (_JSON, _FORM):
        raise UnsupportedMediaType(f"The content type isn't supported; send the paths as {_JSON} or {_FORM}.")
    body = await read_small(request, _MAX_BODY)
    try:
        if kind == _JSON:
            paths = msgspec.json.decode(body, type=_Chosen).paths
        else:
            pairs = "&".join(filter(None, body.decode().split("&")))  # an empty pair says nothing
            fields = parse_qsl(pairs, keep_blank_values=True, strict_parsing=True, errors="strict")
            paths = [value for name, value in fields if name == "paths"]
    except (ValueError, RecursionError):  # msgspec's errors, and of Unicode, are among the first
        raise InvalidRequest('The body is malformed; send it like {"paths": ["a.txt", "folder"]}.') from None
    if not 1 <= len(paths) <= _MAX_PATHS:
        raise InvalidRequest(
            f"The body must list 1 to {_MAX_PATHS} paths. To download the whole folder, use GET without a body."
        )
    return paths


def _below(folder: Path, text: str) -> Path:
    path = Path.parse(text)
    if text.startswith("/") or path.is_root:
        raise InvalidRequest("Paths are relative to the folder in the URL; write them without a leading slash.")
    return path.under(folder)


async def make_folder(request: Request) -> Response:
    operations = await operations_of(request)
    path = path_of(request)
    await operations.files.make_folder(path)
    return Response(status_code=201, headers={"Location": address_of(path)})


async def move_or_copy(request: Request, query: Query, *, copies: bool) -> Response:
    on_conflict = query.choice("onConflict", OnConflict)
    source, target = path_of(request), query.target()

    async def change(operations: Operations) -> ChangeResult:
        work = operations.files.copy if copies else operations.files.move
        return await work(source, target, on_conflict)

    return await carried_out(request, "copy" if copies else "move", change, source, target)


async def delete(request: Request) -> Response:
    query = Query(request)
    recursive, permanent = query.flag("recursive"), query.flag("permanent")
    path = path_of(request)

    async def change(operations: Operations) -> ChangeResult:
        return await operations.files.delete(path, recursive=recursive, permanent=permanent)

    return await carried_out(request, "delete", change, path)


_MAX_SIZE = 1000
_MAX_NAME = 255


class _Case(StrEnum):
    IGNORE = "ignore"
    MATCH = "match"


async def search(operations: Operations, folder: Path, query: Query) -> Response:
    size = min(query.page_size(default=_MAX_SIZE), _MAX_SIZE)
    page = await operations.files.search(folder, _criteria(query), size, query.get("cursor"))
    return JsonResponse(SearchBody(page.cursor, page.passed, [entry_body(path, entry) for path, entry in page.found]))


def _criteria(query: Query) -> Criteria:
    name, kind = query.get("name") or "", query.get("type") or ""
    if len(name) > _MAX_NAME:
        raise InvalidRequest(f"The parameter 'name' can have at most {_MAX_NAME} characters; shorten it.")
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
        raise InvalidRequest("The parameter 'type' must be file, folder, or a media type like image/ or text/csv.")
    return kind


def _moment(query: Query, name: str) -> str | None:
    value = query.get(name)
    if value is None:
        return None
    try:
        return timestamps.from_iso(value)
    except ValueError:
        raise InvalidRequest(
            f"The parameter '{name}' must be a date or time like 2026-11-14 or 2026-11-14T09:30:00Z."
        ) from None


async def activity(operations: Operations, path: Path, query: Query) -> Response:
    page = await operations.activity.list(path, query.page_size(), query.get("cursor"))
    return JsonResponse(ActivityBody(page.cursor, [_event_body(event) for event in page.events]))


def _event_body(event: Event) -> EventBody:
    return filled(
        EventBody,
        event,
        at=timestamps.from_epoch(event.at),
        path=event.path and str(event.path),
        source=event.source and str(event.source),
    )
