"""Resumable uploads by the tus protocol 1.0: https://tus.io/protocols/resumable-upload

Extensions: creation, creation-with-upload, creation-defer-length, expiration, termination, checksum, concatenation.
"""

import re
from base64 import b64decode
from email.utils import format_datetime

from starlette.requests import Request
from starlette.responses import Response

from portico.api.digests import CHECKSUMS, checksum_of, digest_text, digests_of, wants_sha256
from portico.api.receipts import representation
from portico.api.request_body import RequestBody, refuse_coded
from portico.api.requests import (
    address_of,
    content_length,
    context_of,
    modified_of,
    operations_of,
    preferred_return,
    services_of,
    single_header,
)
from portico.api.schemas import with_trash_ids
from portico.model.errors import InvalidRequest, MethodNotAllowed, TusVersion, UnsupportedMediaType
from portico.model.paths import Path
from portico.operations.files.digests import ExpectedDigest, WantedDigest
from portico.operations.files.files import OnConflict
from portico.operations.operations import Operations
from portico.operations.uploads.access import NewUpload, UploadStatus, no_such_upload
from portico.operations.uploads.resumable import ResumableUploads

UPLOADS = "/backend/1.0.0/uploads"
VERSION = "1.0.0"
MEDIA_TYPE = "application/offset+octet-stream"
EXTENSIONS = "creation,creation-with-upload,creation-defer-length,expiration,termination,checksum,concatenation"

_MAX_METADATA = 4096
_MAX_DIGITS = 18
_ID = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[!-+\--~]+")


async def describe(request: Request) -> Response:
    """What this server can do; asked without signing in."""
    limit = services_of(request).max_file_size
    return Response(
        status_code=204,
        headers={
            "Tus-Resumable": VERSION,
            "Tus-Version": VERSION,
            "Tus-Extension": EXTENSIONS,
            "Tus-Checksum-Algorithm": ",".join(CHECKSUMS),
            **({"Tus-Max-Size": str(limit)} if limit else {}),
        },
    )


async def create(request: Request) -> Response:
    """Begin an upload; the body, if there is one, is its beginning."""
    operations = await _operations(request)
    uploads = operations.uploads
    size = _number(request, "Upload-Length")
    metadata = single_header(request, "Upload-Metadata") or ""
    concat = (single_header(request, "Upload-Concat") or "").strip()
    if concat.startswith("final;"):
        parts = [_id_of(address) for address in concat.removeprefix("final;").split()]
        status = await operations.concatenation.store(_new(metadata, None), parts, _wanted(request))
        return _answer(request, operations, status, 201)
    if concat not in ("", "partial"):
        raise InvalidRequest(
            "Upload-Concat is malformed; send 'partial', or 'final;' followed by the URLs of the partial uploads."
        )
    if size is None and single_header(request, "Upload-Defer-Length") != "1":
        raise InvalidRequest(
            "The size is missing; send Upload-Length, or 'Upload-Defer-Length: 1' if you don't know it yet."
        )
    has_content = "Transfer-Encoding" in request.headers or request.headers.get("Content-Length", "0") != "0"
    if has_content:  # refused before anything is made
        _check_body(request, 0)
    if concat:
        status = await uploads.create_partial(size, metadata)
    else:
        status = await uploads.create(_new(metadata, size))
    if has_content:
        async with uploads.ended_unless_begun(status.id):
            status = await _appended(request, uploads, status.id, 0)
    return _answer(request, operations, status, 201)


async def show(request: Request) -> Response:
    operations = await _operations(request)
    status = await operations.uploads.status(_id_of(request.scope["path"]))
    return _answer(request, operations, status, 200)


async def append(request: Request) -> Response:
    operations = await _operations(request)
    uploads = operations.uploads
    offset = _number(request, "Upload-Offset")
    if offset is None:
        raise InvalidRequest("Upload-Offset is missing; send the offset at which the content starts.")
    status = await _appended(request, uploads, _id_of(request.scope["path"]), offset)
    return _answer(request, operations, status, 204)


async def post_to_upload(request: Request) -> Response:
    """For clients that can send GET and POST only."""
    override = request.headers.get("X-HTTP-Method-Override", "").upper()
    endpoints = {"PATCH": append, "DELETE": end, "HEAD": show}
    if override not in endpoints:
        raise MethodNotAllowed(
            "This method can't carry content here; send the content with PATCH.", allowed={"HEAD", "PATCH", "DELETE"}
        )
    return await endpoints[override](request)


async def end(request: Request) -> Response:
    await (await _operations(request)).uploads.end(_id_of(request.scope["path"]))
    return Response(status_code=204, headers={"Tus-Resumable": VERSION})


# Reading


async def _operations(request: Request) -> Operations:
    if single_header(request, "Tus-Resumable") != VERSION:
        raise TusVersion(f"The tus version is missing or not supported; send 'Tus-Resumable: {VERSION}'.")
    context_of(request).action = "upload"
    return await operations_of(request)


async def _appended(request: Request, uploads: ResumableUploads, upload_id: str, offset: int) -> UploadStatus:
    body = RequestBody(request.receive, scheduler=services_of(request).gateway.scheduler)
    return await uploads.append(
        upload_id,
        offset,
        body,
        size=_number(request, "Upload-Length"),
        length=content_length(request),
        interrupt=body.interrupt,
        expected=_check_body(request, offset),
        wanted=_wanted(request),
        # A client that waits for permission to send its body is not given it before it is known to be wanted.
        read_ahead="Expect" not in request.headers,
    )


def _wanted(request: Request) -> WantedDigest:
    """The digest that the client asks for, or that a receipt needs."""
    asked = wants_sha256(request)
    return WantedDigest(computed=asked or preferred_return(request).receipts, recorded=asked)


def _check_body(request: Request, offset: int) -> list[ExpectedDigest]:
    """The digests of the body; raises if it cannot be taken, before it is read."""
    if (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise UnsupportedMediaType(f"The content type isn't supported; send the content as {MEDIA_TYPE}.")
    refuse_coded(request)
    expected, length = digests_of(request.headers.items()), content_length(request)
    # That of the whole file can be verified if it is the body.
    if any(each.field == "Repr-Digest" for each in expected) and (
        offset or length is None or length != _number(request, "Upload-Length")
    ):
        raise InvalidRequest(
            "Repr-Digest works only if one request sends the whole file. Send a Content-Digest or "
            "Upload-Checksum with each request instead."
        )
    text = single_header(request, "Upload-Checksum")
    return expected if text is None else [*expected, checksum_of(text)]


def _id_of(address: str) -> str:
    """The id at the end of an upload's address, relative or absolute."""
    upload_id = re.split("[?#]", address, maxsplit=1)[0].rstrip("/").rpartition("/")[2]
    if not _ID.fullmatch(upload_id):
        raise no_such_upload()
    return upload_id


def _number(request: Request, name: str) -> int | None:
    text = single_header(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise InvalidRequest(f"{name} is malformed; send a whole number of bytes.")
    return int(text)


def _new(header: str, size: int | None) -> NewUpload:
    """What the metadata says of the file. `name`, `type` and `relativePath` are how Uppy calls it."""
    found = _metadata(header)
    name = found.get("filename") or found.get("name")
    if not name:
        raise InvalidRequest("Upload-Metadata has no filename; add the file's name in Base64.")
    folder = Path.parse(found.get("folder", ""))
    relative = found.get("relativePath", "")
    if relative not in ("", "null"):
        folder = Path.parse(relative).parent.under(folder)
    return NewUpload(
        path=folder.child(name),
        size=size,
        content_type=found.get("filetype") or found.get("type") or None,
        on_conflict=_on_conflict(found.get("onConflict")),
        modified=modified_of(found.get("modified") or None, "The modified of Upload-Metadata"),
        metadata=header,
    )


def _on_conflict(text: str | None) -> OnConflict | None:
    try:
        return OnConflict(text) if text else None
    except ValueError:
        raise InvalidRequest(f"onConflict is not valid; use one of {', '.join(OnConflict)}.") from None


def _metadata(header: str) -> dict[str, str]:
    if len(header) > _MAX_METADATA:
        raise InvalidRequest(f"Upload-Metadata exceeds {_MAX_METADATA} bytes; send less.")
    found: dict[str, str] = {}
    for pair in filter(None, (pair.strip() for pair in header.split(","))):
        key, _, value = pair.partition(" ")
        try:
            text = b64decode(value.strip(), validate=True).decode()
        except ValueError:
            raise InvalidRequest(
                f"The value of '{key[:40]}' in Upload-Metadata is not valid; encode it as UTF-8 in Base64."
            ) from None
        if not _KEY.fullmatch(key) or key in found:
            raise InvalidRequest("Upload-Metadata is malformed; send each key once, followed by its value.")
        found[key] = text
    return found


# Answering


def _answer(request: Request, operations: Operations, status: UploadStatus, code: int) -> Response:
    return with_trash_ids(_described(request, operations, status, code), status.trash_ids)


def _described(request: Request, operations: Operations, status: UploadStatus, code: int) -> Response:
    headers = {
        "Tus-Resumable": VERSION,
        "Cache-Control": "no-store",
        "Upload-Expires": format_datetime(status.expires_at, usegmt=True),
    }
    if status.partial:
        headers["Upload-Concat"] = "partial"
    elif status.parts:
        headers["Upload-Concat"] = "final;" + " ".join(_address(request, part) for part in status.parts)
    if status.parts is None or status.entry:
        headers["Upload-Offset"] = str(status.offset)
    if code == 201:
        headers["Location"] = _address(request, status.id)
    if code == 200:
        if status.size is None:
            headers["Upload-Defer-Length"] = "1"
        else:
            headers["Upload-Length"] = str(status.size)
        if status.metadata:
            headers["Upload-Metadata"] = status.metadata
    if stored := status.stored_at:
        returned = preferred_return(request)
        if request.method != "HEAD" and returned.entries:
            assert status.entry
            return representation(
                operations,
                status.path.parent,
                [status.entry],
                {status.entry.name: status.sha256} if status.sha256 else {},
                receipts=returned.receipts,
                status=201 if code == 201 else 200,
                headers=headers,
            )
        headers["Content-Location"] = address_of(stored)
        if status.sha256:
            headers["Repr-Digest"] = digest_text(status.sha256)
    return Response(status_code=code, headers=headers)


def _address(request: Request, upload_id: str) -> str:
    """Absolute if the public address is known; a proxy that serves a part of its own tree must be named there."""
    return f"{services_of(request).public_url}{UPLOADS}/{upload_id}"
