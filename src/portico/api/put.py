"""`PUT`: the body is the file, and goes to the storage as it arrives."""

from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from portico.api.conditions import write_condition
from portico.api.digests import FIELDS, digest_text, digests_of, wants_sha256
from portico.api.multipart import media_type
from portico.api.receipts import representation
from portico.api.request_body import RequestBody, refuse_coded
from portico.api.requests import (
    MODIFIED,
    Query,
    Returned,
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
from portico.model.errors import InvalidRequest, IsAFolder, UnsupportedMediaType
from portico.model.paths import Path
from portico.operations.files.conditions import WriteCondition
from portico.operations.files.files import OnConflict
from portico.operations.files.upload import Upload
from portico.operations.operations import Operations

_CONDITIONS = frozenset({b"if-match", b"if-none-match", b"if-unmodified-since"})


async def put(request: Request) -> Response:
    query = Query(request)
    operations = await operations_of(request)
    path = path_of(request)
    on_conflict = query.choice("onConflict", OnConflict)
    # Most requests have few headers: to look for each of those that might be there would cost more than all the rest.
    present = {name for name, _ in request.scope["headers"]}
    plain = _CONDITIONS.isdisjoint(present)
    condition = WriteCondition(on_conflict) if plain else write_condition(request, on_conflict)
    returned = preferred_return(request) if b"prefer" in present else Returned()
    digest = b"want-repr-digest" in present and wants_sha256(request)
    async with operations.files.upload(
        path.parent, condition.on_conflict, digest=digest, receipt=returned.receipts
    ) as upload:
        stored = await upload.put(
            path.name,
            RequestBody(request.receive, scheduler=services_of(request).gateway.scheduler),
            _check(request, path, query, present),
            condition,
            size=content_length(request),
            expected=() if FIELDS.isdisjoint(present) else digests_of(request.headers.items()),
            modified=modified_of(single_header(request, MODIFIED)) if b"x-modified" in present else None,
            confirm=b"expect" in present,  # the client waits for a refusal before it sends
        )
    response = _stored(operations, path.parent.child(stored.entry.name), upload, new=stored.is_new, returned=returned)
    return with_trash_ids(response, upload.trash_ids)


def _stored(operations: Operations, path: Path, upload: Upload, *, new: bool, returned: Returned) -> Response:
    (entry,) = upload.stored
    headers = {"ETag": f'"{entry.etag}"'} if entry.etag else {}
    address = address_of(path)
    if new:
        headers["Location"] = address
    if returned.entries:
        return representation(
            operations,
            path.parent,
            [entry],
            upload.digests,
            receipts=returned.receipts,
            status=201 if new else 200,
            headers=headers,
        )
    # Not beside a body: it would not be what they speak of.
    headers["Content-Location"] = address
    if entry.last_modified:
        headers[MODIFIED] = entry.last_modified
    if sha256 := upload.digests.get(entry.name):
        headers["Repr-Digest"] = digest_text(sha256)
    return Response(status_code=201 if new else 204, headers=headers)


def _check(request: Request, path: Path, query: Query, present: Collection[bytes]) -> str | None:
    """Refuse what is no upload of a whole file; the content type, if there is one."""
    if path.is_root or path.as_folder:
        raise IsAFolder("This is a folder's URL; add the file's name to it.")
    if query.get("action") is not None:
        raise InvalidRequest("PUT doesn't take the parameter 'action'; leave it out.")
    if b"content-range" in present:
        raise InvalidRequest("Parts of a file can't be replaced; send the whole file, without Content-Range.")
    if b"content-encoding" in present:
        refuse_coded(request)
    if b"content-type" not in present:
        return None
    content_type = media_type(single_header(request, "Content-Type") or "")
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        raise UnsupportedMediaType("PUT takes the file itself as its body; to upload a form, POST it to the folder.")
    # What curl says of any body that it was given with -d or --data-binary.
    return None if kind == "application/x-www-form-urlencoded" else content_type
