"""`action=THUMBNAIL`: a small picture of a file."""

from starlette.requests import Request
from starlette.responses import Response

from portico.api import conditions
from portico.api.download import DOWNLOAD_HEADERS, refuse_to_be_run
from portico.api.requests import Query
from portico.errors import InvalidRequest
from portico.operations import Operations
from portico.operations.thumbnails import MEDIA_TYPE, SIZES
from portico.paths import Path

PAGE_COUNT = "X-Page-Count"


async def thumbnail(request: Request, operations: Operations, path: Path, query: Query) -> Response:
    refuse_to_be_run(request)
    size = query.page_size(SIZES[0])
    if size not in SIZES:
        raise InvalidRequest(f"The parameter 'size' must be {' or '.join(map(str, SIZES))}.")
    page = query.number("page", least=1) or 1
    planned = await operations.plan_thumbnail(path, size, page)
    headers = {**DOWNLOAD_HEADERS, "ETag": f'"{planned.etag}"'}
    known = conditions.joined(request, "If-None-Match")
    if known is not None and conditions.names(known.replace("W/", ""), planned.etag):
        return Response(status_code=304, headers=headers)
    if request.method == "HEAD":  # not made, and not counted as a guest's download
        return Response(headers=headers, media_type=MEDIA_TYPE)
    made = await operations.make_thumbnail(planned)
    headers[PAGE_COUNT] = str(made.pages)
    return Response(made.content, headers=headers, media_type=MEDIA_TYPE)
