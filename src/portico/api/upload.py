"""Uploading files as `multipart/form-data`, streamed to the storage as they arrive."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from portico.api.digests import Digests, digests_of, has_digest
from portico.api.multipart import FormFile, MultipartReader
from portico.api.problems import problem_response
from portico.api.request_body import RequestBody, is_content_coded
from portico.api.requests import Query, address_of, operations_of, path_of, services_of, single_header
from portico.api.schemas import JsonResponse, stored_body
from portico.entries import Entry
from portico.errors import InvalidRequest, PorticoError, UnsupportedMediaType
from portico.operations import OnConflict, Upload
from portico.paths import Path

REPRESENTATION = "return=representation"


async def upload(request: Request, query: Query) -> Response:
    operations = await operations_of(request)
    folder = path_of(request)
    on_conflict = query.choice("onConflict", OnConflict)
    transfer: Upload | None = None
    try:
        async with operations.upload(folder, on_conflict) as opened:
            digests = digests_of(request.headers.items())
            form = _form(request, digests)
            if "Expect" in request.headers:  # the client waits for a refusal before it sends
                await opened.check_folder()
            if (size := _content_length(request)) is not None:
                opened.announce(size)
            transfer = opened
            while file := await form.next_file():
                await transfer.store(file.filename, _verified(file, form, digests), file.content_type)
            if not transfer.stored:
                raise InvalidRequest("The form holds no file; send each file in a part named 'data'.")
    except PorticoError as error:
        if transfer is None:
            raise
        names = [entry.name for entry in transfer.stored]
        return problem_response(request, error, stored=names, failed=transfer.failed)
    return _stored(request, folder, transfer.stored)


def _form(request: Request, digests: Digests | None) -> MultipartReader:
    if is_content_coded(request):
        raise UnsupportedMediaType("The body is content-coded; send it without a Content-Encoding.")
    content_type = single_header(request, "Content-Type") or ""
    services = services_of(request)
    body = RequestBody(request.receive, scheduler=services.gateway.scheduler)
    watched = digests.watch(body) if digests else body
    return MultipartReader(watched, content_type, max_files=services.max_files)


def _content_length(request: Request) -> int | None:
    text = request.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def _verified(file: FormFile, form: MultipartReader, of_body: Digests | None) -> AsyncIterator[bytes]:
    return _checked(file, form, of_body) if of_body or has_digest(file.headers) else file.chunks


async def _checked(file: FormFile, form: MultipartReader, of_body: Digests | None) -> AsyncIterator[bytes]:
    """The file's chunks, ending in an error if a digest does not match."""
    of_file = digests_of(file.headers.items())
    async for chunk in file.chunks:
        if of_file:
            await of_file.update(chunk)
        yield chunk
    if of_file:
        await of_file.check()
    if of_body:
        # It is known at the end of the form: only a single file can be held back until then.
        if await form.next_file():
            raise InvalidRequest(
                "A digest of the whole form can be verified for one file only; "
                "send one file, or give each part a digest of its own."
            )
        await of_body.check()


def _stored(request: Request, folder: Path, entries: list[Entry]) -> Response:
    """Names the stored files: with `onConflict=rename` the client does not know where they are."""
    if _prefers_representation(request):
        applied = (b"preference-applied", REPRESENTATION.encode())
        return JsonResponse(stored_body(folder, entries), 200, applied)
    if len(entries) == 1:
        location = address_of(folder.child(entries[0].name))
        return Response(status_code=204, headers={"Content-Location": location})
    return Response(status_code=204)


def _prefers_representation(request: Request) -> bool:
    """Whether `Prefer` (RFC 7240) asks for the entries in the answer; unknown preferences are ignored."""
    for preference in ",".join(request.headers.getlist("Prefer")).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "return":  # the first one counts
            return value.strip().strip('"') == "representation"
    return False
