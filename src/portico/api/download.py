"""Sending a file: whole or one range of it, conditionally, streamed."""

import asyncio
import re
from collections.abc import Mapping
from email.utils import format_datetime
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from portico.api import conditions
from portico.api.digests import digest_text, wants_sha256
from portico.api.request_body import until_gone
from portico.api.requests import MODIFIED, Query, context_of, operations_of, path_of, services_of
from portico.api.schemas import JsonResponse, TicketBody
from portico.model.entries import Chunks, Download, Entry
from portico.model.errors import Changed, Forbidden, RangeNotSatisfiable
from portico.model.paths import Path
from portico.operations.actors.cancellation import ClientGone
from portico.operations.files.conditions import modified
from portico.operations.operations import Operations
from portico.runtime.fair_scheduling import FairScheduler

IDLE_SECONDS = 30.0
MIN_RATE = 8 * 1024
"""How long a client may take nothing of a download, and how many bytes a second it must take."""

_CONDITIONS = frozenset({"range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})
_RANGE = re.compile(r"bytes=\s*([0-9]{0,40})-([0-9]{0,40})\s*")
_ONE_VERSION = re.compile(r'\s*"([\x21\x23-\x7e]{1,200})"\s*')
_MAX_SIZE = 2**63
_NOT_PLAIN = re.compile(r'[^\x20-\x7e]|["\\%]')


CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""Whatever a user stored runs nothing and loads nothing, should a browser show it after all."""
DOWNLOAD_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every response with something that users stored."""

_DESTINATIONS = frozenset({"audio", "document", "empty", "image", "track", "video"})
"""What a browser may want a user's file for: to save or show it, or to hand its bytes to a script. Never to run it, nor
to make it a part of a page, which a ticket's address would allow."""


async def download(request: Request, operations: Operations, path: Path) -> Response:
    context_of(request).action = "download"
    refuse_to_be_run(request)
    scheduler = services_of(request).gateway.scheduler
    if request.method == "GET" and not is_conditional(request):
        # Nothing depends on the entry: one call to the storage is enough.
        content = await operations.files.read(path)
        return await _file(request, operations, path, content, scheduler, partial=False)
    if request.method == "GET" and (known := _known_range(request)):
        # Nor does this range: it makes sense, or the storage refuses it.
        start, stop, version = known
        try:
            content = await operations.files.read(path, start, stop, etag=version)
        except Changed as error:
            raise (_another_version() if version else error) from None
        size = content.entry.size or 0
        if start >= size:
            await content.chunks.aclose()
            raise _outside(size)
        return await _file(request, operations, path, content, scheduler, partial=True)
    entry = await operations.files.stat_for_download(path)
    if _unchanged(request, entry):
        return Response(status_code=304, headers=_validators(entry))
    span = _requested_range(request, entry)
    if request.method == "HEAD":
        digest = await _digest(request, operations, path, entry)
        return Response(status_code=206 if span else 200, headers=_headers(entry, span) | digest)
    start, stop = span or (0, None)
    # A change in the meantime matters only to a client that asked for a part, or for this version.
    version = entry.etag if span or "If-Match" in request.headers else None
    content = await operations.files.read(path, start, stop, etag=version)
    return await _file(request, operations, path, content, scheduler, partial=span is not None)


def is_conditional(request: Request) -> bool:
    """Whether the client wants a file, or a part of it, only under conditions."""
    return not _CONDITIONS.isdisjoint(request.headers)


def is_plain(request: Request) -> bool:
    """Whether a file would be sent whole, and is not refused."""
    return request.method == "GET" and not is_conditional(request) and not _is_to_be_run(request)


async def send(request: Request, operations: Operations, path: Path, content: Download) -> Response:
    """The answer to a plain request."""
    context_of(request).action = "download"
    return await _file(request, operations, path, content, services_of(request).gateway.scheduler, partial=False)


async def _file(
    request: Request, operations: Operations, path: Path, content: Download, scheduler: FairScheduler, *, partial: bool
) -> Response:
    try:
        digest = await _digest(request, operations, path, content.entry)
    except BaseException:
        await content.chunks.aclose()
        raise
    headers = _headers(content.entry, (content.start, content.stop) if partial else None) | digest
    size = content.stop - content.start
    return StreamedResponse(content.chunks, scheduler, headers, 206 if partial else 200, size=size)


async def _digest(request: Request, operations: Operations, path: Path, entry: Entry) -> dict[str, str]:
    """`Repr-Digest`, if it is known; of a range only if it is wanted, because a file may be read in thousands of them."""
    if "Want-Repr-Digest" in request.headers:
        wanted = wants_sha256(request)
    else:
        wanted = "Range" not in request.headers and await operations.files.has_digests(path)
    if not wanted:
        return {}
    sha256 = await operations.files.digest(path, entry)
    return {"Repr-Digest": digest_text(sha256)} if sha256 else {}


async def issue_ticket(request: Request, query: Query) -> Response:
    operations = await operations_of(request)
    issued = await operations.files.ticket(
        path_of(request), recursive=query.flag("recursive"), renewed=query.get("ticket")
    )
    return JsonResponse(TicketBody(issued.text, issued.lifetime))


def _is_to_be_run(request: Request) -> bool:
    headers = request.headers
    return headers.get("Sec-Fetch-Dest", "empty") not in _DESTINATIONS or "Service-Worker" in headers


def refuse_to_be_run(request: Request) -> None:
    if _is_to_be_run(request):
        raise Forbidden("Stored files can't be used as a script, style sheet or frame. Download the file instead.")


class StreamedResponse(Response):
    """Chunks on their way to the client, closed whatever happens on that way."""

    def __init__(
        self,
        chunks: Chunks,
        scheduler: FairScheduler,
        headers: Mapping[str, str],
        status_code: int = 200,
        *,
        size: int | None = None,
        abandons: bool = False,
    ) -> None:
        """`abandons`: whether a client that hangs up ends even the wait for the next chunk."""
        super().__init__(status_code=status_code, headers=headers)
        if "Content-Length" not in headers:
            # That of the empty body with which it was made.
            self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._chunks = chunks
        self._scheduler = scheduler
        self._size = size
        self._abandons = abandons

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._chunks, None)
            if len(first or b"") == self._size:  # a small file: nothing is left to wait for
                await self._scheduler.turn(len(first or b""))
                await self._start(send)
                await send({"type": "http.response.body", "body": first or b""})
            else:
                await self._stream(first, receive, send)
        finally:
            await self._chunks.aclose()

    async def _start(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

    async def _stream(self, chunk: bytes | None, receive: Receive, send: Send) -> None:
        # The server takes what is sent to a client that has gone, and does not say so: we have to listen for it.
        gone = asyncio.create_task(until_gone(receive))
        try:
            await self._start(send)
            while chunk is not None:
                await self._scheduler.turn(len(chunk))
                if gone.done():
                    raise ClientGone
                # Somebody who takes nothing must not keep the file, the connection and the memory forever.
                try:
                    async with asyncio.timeout(IDLE_SECONDS + len(chunk) / MIN_RATE):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                except TimeoutError:
                    raise ClientGone from None
                chunk = await (self._next(gone) if self._abandons else anext(self._chunks, None))
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()

    async def _next(self, gone: asyncio.Task[None]) -> bytes | None:
        following = asyncio.ensure_future(anext(self._chunks, None))
        try:
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                raise ClientGone
            return following.result()
        finally:
            if not following.done():
                following.cancel()
                await asyncio.wait({following})


def _headers(entry: Entry, span: tuple[int, int] | None) -> dict[str, str]:
    size = entry.size or 0
    start, stop = span or (0, size)
    headers = _validators(entry) | {
        "Accept-Ranges": "bytes",
        "Content-Type": entry.content_type,
        "Content-Length": str(stop - start),
        "Content-Disposition": content_disposition(entry.name),
    }
    if span:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return headers


def _validators(entry: Entry) -> dict[str, str]:
    headers = DOWNLOAD_HEADERS.copy()
    if entry.etag:
        headers["ETag"] = f'"{entry.etag}"'
    if entry.last_modified and entry.modified:
        headers[MODIFIED] = entry.last_modified
        headers["Last-Modified"] = format_datetime(entry.modified.replace(microsecond=0), usegmt=True)
    return headers


def content_disposition(name: str) -> str:
    """`attachment` with the name (RFC 6266): for old clients what is plain of it, for the others all of it."""
    plain = _NOT_PLAIN.sub("_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


def _unchanged(request: Request, entry: Entry) -> bool:
    """Whether the client has this version already; `Changed` if it insists on another one (RFC 9110, 13.2.2)."""
    headers = request.headers
    if (match := conditions.joined(request, "If-Match")) is not None:
        if not conditions.names(match, entry.etag):
            raise _another_version()
    elif (since := conditions.date(headers.get("If-Unmodified-Since"))) and modified(entry) > since:
        raise Changed(
            "The file has changed since the date in If-Unmodified-Since. Get its current version and try again."
        )
    if (known := conditions.is_known(request, entry.etag)) is not None:
        return known
    since = conditions.date(headers.get("If-Modified-Since"))
    return since is not None and modified(entry) <= since


def _requested_range(request: Request, entry: Entry) -> tuple[int, int] | None:
    """The one range that is asked for. Several, or one that makes no sense, mean the whole file."""
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    if match is None or not any(match.groups()) or not _if_range_holds(request, entry):
        return None
    size = entry.size or 0
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    if start >= stop:
        raise _outside(size)
    return start, stop


def _known_range(request: Request) -> tuple[int, int | None, str | None] | None:
    """The range, and the version that it is to be of, if both can be told without the entry."""
    headers = request.headers
    if not _CONDITIONS.intersection(headers) <= {"range", "if-match"}:
        return None
    match = _RANGE.fullmatch(headers.get("Range", ""))
    version = _ONE_VERSION.fullmatch(conditions.joined(request, "If-Match") or "")
    if match is None or not match[1] or (version is None and "If-Match" in headers):
        return None
    start, stop = int(match[1]), int(match[2]) + 1 if match[2] else None
    if start >= _MAX_SIZE or (stop is not None and not start < stop <= _MAX_SIZE):
        return None
    return start, stop, version[1] if version else None


def _another_version() -> Changed:
    return Changed("The file no longer has the version in If-Match. Get its current version and try again.")


def _outside(size: int) -> RangeNotSatisfiable:
    return RangeNotSatisfiable(f"The range is outside the file's {size} bytes; request a range within them.", size=size)


def _if_range_holds(request: Request, entry: Entry) -> bool:
    condition = request.headers.get("If-Range")
    if condition is None:
        return True
    if condition.startswith('"'):
        return condition == f'"{entry.etag}"'
    return conditions.date(condition) == modified(entry)
