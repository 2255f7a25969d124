"""`action=ZIP`: a folder, or some files and folders of it, as one archive."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.download import DOWNLOAD_HEADERS, StreamedResponse, content_disposition, refuse_to_be_run
from portico.api.request_body import read_small
from portico.api.requests import Query, operations_of, path_of, services_of, single_header
from portico.errors import InvalidRequest, UnsupportedMediaType
from portico.operations import Operations
from portico.paths import Path

_MAX_BODY = 4 * 2**20
_MAX_PATHS = 10_000
_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"


class _Chosen(msgspec.Struct):
    paths: list[str]


async def archive(
    request: Request, operations: Operations, folder: Path, chosen: Sequence[Path] = ()
) -> Response:
    refuse_to_be_run(request)
    made = await operations.archive(folder, chosen)
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
    return await archive(
        request, operations, folder, [_below(folder, text) for text in await _paths(request)]
    )


async def _paths(request: Request) -> list[str]:
    """From JSON, or from a form, which is all that a browser can send when it is to save the response as a file."""
    kind = (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower()
    if kind not in (_JSON, _FORM):
        raise UnsupportedMediaType(f"Send the paths as {_JSON} or {_FORM}.")
    body = await read_small(request, _MAX_BODY)
    try:
        if kind == _JSON:
            paths = msgspec.json.decode(body, type=_Chosen).paths
        else:
            pairs = "&".join(filter(None, body.decode().split("&")))  # an empty pair says nothing
            fields = parse_qsl(pairs, keep_blank_values=True, strict_parsing=True, errors="strict")
            paths = [value for name, value in fields if name == "paths"]
    except (ValueError, RecursionError):  # msgspec's errors, and of Unicode, are among the first
        raise InvalidRequest('The body must be like {"paths": ["a.txt", "folder"]}.') from None
    if not 1 <= len(paths) <= _MAX_PATHS:
        raise InvalidRequest(f"Name 1 to {_MAX_PATHS} paths; without a body, GET sends the whole folder.")
    return paths


def _below(folder: Path, text: str) -> Path:
    path = Path.parse(text)
    if text.startswith("/") or path.is_root:
        raise InvalidRequest(
            "Paths count from the folder in the address, without a slash at their beginning."
        )
    return path.under(folder)
