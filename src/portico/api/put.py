"""`PUT`: the body is the file, and goes to the storage as it arrives."""

import asyncio
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from portico.api.conditions import WriteCondition
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
    context_of,
    modified_of,
    operations_of,
    path_of,
    preferred_return,
    services_of,
    single_header,
)
from portico.model.errors import (
    AlreadyExists,
    Changed,
    InvalidRequest,
    IsAFolder,
    PorticoError,
    UnsupportedMediaType,
    already_exists,
    cannot_replace_folder,
)
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.attempt import Attempt
from portico.operations.files.files import OnConflict
from portico.operations.files.upload import Upload
from portico.operations.operations import Operations

_SETTLED = "condition"
_CONDITIONS = frozenset({b"if-match", b"if-none-match", b"if-unmodified-since"})


async def put(request: Request, query: Query) -> Response:
    operations = await operations_of(request)
    path = path_of(request)
    on_conflict = query.choice("onConflict", OnConflict)
    # Most requests have few headers: to look for each of those that might be there would cost more than all the rest.
    present = {name for name, _ in request.scope["headers"]}
    plain = _CONDITIONS.isdisjoint(present)
    condition = WriteCondition(on_conflict) if plain else WriteCondition.of(request, on_conflict)
    returned = preferred_return(request) if b"prefer" in present else Returned()
    digest = b"want-repr-digest" in present and wants_sha256(request)
    async with operations.files.upload(
        path.parent, condition.on_conflict, digest=digest, receipt=returned.receipts
    ) as upload:
        content_type = _check(request, path, query, present)
        attempt = context_of(request).attempt
        if condition.needs_entry:
            await _settle(condition, upload, path, attempt)
            upload.on_conflict = condition.on_conflict
        # Not that of the condition: a guest replaces nothing.
        replaces = upload.on_conflict in (None, OnConflict.REPLACE)
        target = _Target(upload, path, may_replace=replaces and operations.allows(Right.OVERWRITE))
        try:
            # The client waits for a refusal before it sends. If it asks again, it may meet the file that it has sent.
            if b"expect" in present and not (attempt and attempt.is_repeated):
                await upload.check_folder()
                await target.check(condition)
            elif target.may_replace and condition.if_match is None and not upload.says_replaced:
                target.look()
            entry = await upload.store(
                path.name,
                RequestBody(request.receive, scheduler=services_of(request).gateway.scheduler),
                content_type,
                size=content_length(request),
                expected=() if FIELDS.isdisjoint(present) else digests_of(request.headers.items()),
                if_match=condition.if_match,
                modified=modified_of(single_header(request, MODIFIED)) if b"x-modified" in present else None,
                before_commit=target.looking,
            )
        except AlreadyExists as error:
            if condition.only_new:
                raise Changed(f"'{path.name}' exists already, which If-None-Match excludes.") from error
            raise
        finally:
            target.close()
    new = condition.makes_new
    if new is None:
        new = not entry.replaced if upload.says_replaced else target.is_new
    return _stored(operations, path.parent.child(entry.name), upload, new=new, returned=returned)


async def _settle(condition: WriteCondition, upload: Upload, path: Path, attempt: Attempt | None) -> None:
    """Compare with what is there: once for all attempts under an idempotency key, before the first one changes it."""
    settled = attempt.noted(_SETTLED) if attempt else None
    if settled is not None:
        condition.settle_as(settled)
        return
    condition.settle(await upload.find(path.name))
    if attempt:
        await attempt.note(_SETTLED, condition.settled)


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
        raise IsAFolder("This is the address of a folder; add the name of the file to it.")
    if query.get("action") is not None:
        raise InvalidRequest("A PUT has no action; leave the parameter out.")
    if b"content-range" in present:
        raise InvalidRequest(
            "A part of a file cannot be replaced; send the whole file, without Content-Range."
        )
    if b"content-encoding" in present:
        refuse_coded(request)
    if b"content-type" not in present:
        return None
    content_type = media_type(single_header(request, "Content-Type") or "")
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        raise UnsupportedMediaType(
            "The body of a PUT is the file itself; send a form with POST, to the folder."
        )
    # What curl says of any body that it was given with -d or --data-binary.
    return None if kind == "application/x-www-form-urlencoded" else content_type


class _Target:
    """Whether an upload makes a new file. Where only the storage knows, it is asked while the body arrives."""

    def __init__(self, upload: Upload, path: Path, *, may_replace: bool) -> None:
        self._upload = upload
        self._path = path
        self.may_replace = may_replace
        self.looking: asyncio.Future[None] | None = None
        self.is_new = not may_replace

    def look(self) -> None:
        self.looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        try:
            self.is_new = await self._upload.find(self._path.name) is None
        except PorticoError:
            pass  # the upload itself meets what is wrong

    async def check(self, condition: WriteCondition) -> None:
        """Look now: raise what the storage would raise at the end of the body."""
        found = await self._upload.find(self._path.name)
        self.is_new = found is None
        if found is None:
            if condition.if_match is not None:
                raise Changed(f"There is no '{self._path.name}' any more; look at it again.")
            return
        if self._upload.on_conflict is OnConflict.RENAME:
            self.is_new = True
        elif found.is_folder:
            raise cannot_replace_folder(found.name)
        elif not self.may_replace:
            raise already_exists(found.name)
        elif condition.if_match not in (None, found.etag):
            raise Changed("The file is not the version that If-Match names; look at it again.")

    def close(self) -> None:
        if self.looking is not None:
            self.looking.cancel()
