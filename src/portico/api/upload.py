"""Uploading files as `multipart/form-data`, streamed to the storage as they arrive."""

from collections.abc import AsyncIterator
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from portico.api.digests import digest_text, digests_of, wants_sha256
from portico.api.multipart import FormFile, MultipartReader
from portico.api.problems import problem_response
from portico.api.receipts import representation
from portico.api.request_body import RequestBody, refuse_coded
from portico.api.requests import (
    MODIFIED,
    Query,
    address_of,
    content_length,
    modified_of,
    operations_of,
    path_of,
    preferred_return,
    services_of,
    single_header,
)
from portico.api.schemas import with_trash_ids
from portico.model.errors import InvalidRequest, PorticoError
from portico.model.paths import Path
from portico.operations.files.digests import ExpectedDigest, Hashing
from portico.operations.files.file_batch import FileBatch
from portico.operations.files.files import OnConflict
from portico.operations.files.upload import Upload


async def upload(request: Request, query: Query) -> Response:
    operations = await operations_of(request)
    folder = path_of(request)
    on_conflict = query.choice("onConflict", OnConflict)
    returned, digest = preferred_return(request), wants_sha256(request)
    transfer: Upload | None = None
    try:
        async with operations.files.upload(folder, on_conflict, digest=digest, receipt=returned.receipts) as opened:
            announced = digests_of(request.headers.items())
            whole = Hashing(announced) if announced else None
            form = _form(request, whole)
            modified = modified_of(single_header(request, MODIFIED))
            if "Expect" in request.headers:  # the client waits for a refusal before it sends
                await opened.check_folder()
            if (size := content_length(request)) is not None:
                opened.announce(size)
            transfer = opened
            async with FileBatch(transfer) as batch:
                while file := await form.next_file():
                    await _store(batch, file, form, whole, modified)
            if not transfer.stored:
                raise InvalidRequest("The form contains no file; send each file in a part named 'data'.")
    except PorticoError as error:
        if transfer is None:
            raise
        names = [entry.name for entry in transfer.stored]
        response = problem_response(request, error, stored=names, failed=transfer.failed)
        return with_trash_ids(response, transfer.trash_ids)
    if returned.entries:
        response = representation(operations, folder, transfer.stored, transfer.digests, receipts=returned.receipts)
    else:
        response = _stored(folder, transfer, digest=digest)
    return with_trash_ids(response, transfer.trash_ids)


def _form(request: Request, whole: Hashing | None) -> MultipartReader:
    refuse_coded(request)
    content_type = single_header(request, "Content-Type") or ""
    services = services_of(request)
    body = RequestBody(request.receive, scheduler=services.gateway.scheduler)
    watched = whole.watch(body) if whole else body
    return MultipartReader(watched, content_type, max_files=services.max_files)


async def _store(
    batch: FileBatch, file: FormFile, form: MultipartReader, whole: Hashing | None, modified: datetime | None
) -> None:
    chunks = _checked(file.chunks, form, whole) if whole else file.chunks
    expected: list[ExpectedDigest] = []
    try:
        expected = digests_of(file.headers.items())
        modified = modified_of(file.headers.get(MODIFIED)) or modified
    except InvalidRequest as error:
        chunks = _refusal(error)  # so that it is recorded as a failure of this file
    await batch.store(file.filename, chunks, file.content_type, expected=expected, modified=modified)


async def _refusal(error: InvalidRequest) -> AsyncIterator[bytes]:
    raise error
    yield b""


async def _checked(chunks: AsyncIterator[bytes], form: MultipartReader, whole: Hashing) -> AsyncIterator[bytes]:
    """The file's chunks, ending in an error if the digest of the whole form does not match."""
    async for chunk in chunks:
        yield chunk
    # It is known at the end of the form: only a single file can be held back until then.
    if await form.next_file():
        raise InvalidRequest(
            "A digest of the whole form works for one file only. Send one file, or give each part its own digest."
        )
    await whole.check()


def _stored(folder: Path, transfer: Upload, *, digest: bool) -> Response:
    """Names a single file: with `onConflict=rename` the client does not know where it is."""
    if len(transfer.stored) > 1:
        return Response(status_code=204)
    (entry,) = transfer.stored
    headers = {"Content-Location": address_of(folder.child(entry.name))}
    if digest:
        headers["Repr-Digest"] = digest_text(transfer.digests[entry.name])
    return Response(status_code=204, headers=headers)
