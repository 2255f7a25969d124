"""`ResumableUploads`: files that an actor sends in several requests, to any worker of any node."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import timedelta
from secrets import token_hex

import msgspec
import structlog

from portico.drive.drive import Drive, OnConflict, ResumableUpload
from portico.model.entries import guess_content_type
from portico.model.errors import Forbidden, InvalidRequest, PorticoError, TooManyRequests, other_offset
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Standing
from portico.operations.actors.auditing import note_refusal
from portico.operations.actors.tree import Tree
from portico.operations.files.digests import ExpectedDigest, Hashing, WantedDigest
from portico.operations.sharing.link_limits import LinkLimits
from portico.operations.uploads.access import (
    NewUpload,
    UploadAccess,
    UploadDetails,
    UploadServices,
    UploadStatus,
    details_of,
    save_progress,
    state_of,
    status_of,
    text_of,
)
from portico.operations.uploads.body import ReadAhead, SizeLimit, VerifiedBodies, guarded, too_large
from portico.operations.uploads.completion import UploadCompletion
from portico.operations.uploads.expiry import abandon
from portico.runtime import clock
from portico.store.uploads import HIDDEN, OPEN, RESUMABLE, Scope, UploadRecord

MAX_OPEN = 1000
"""Unfinished uploads of one user."""
MAX_OPEN_OF_LINK = 500
"""Unfinished uploads of all guests of one link. Those of other links, and the owner's, do not count."""
MAX_OPEN_OF_ADDRESS = 100
"""Those from one address, so that other guests of the link can send files, too."""
EMPTY_LIFETIME = timedelta(hours=1)
"""How long an upload is kept of which nothing has arrived."""

log = structlog.get_logger()


class ResumableUploads:
    def __init__(self, shared: UploadServices, tree: Tree, limits: LinkLimits) -> None:
        self._shared = shared
        self._tree = tree
        self._actor = tree.actor
        self._access = UploadAccess(shared, tree)
        self._limits = limits
        self._completion = UploadCompletion(shared, tree, limits)

    # The operations

    async def create(self, new: NewUpload, parts: list[str] | None = None) -> UploadStatus:
        """Begin an upload. One of no bytes is stored at once."""
        if self._limits.is_guest:
            new = msgspec.structs.replace(new, on_conflict=OnConflict.RENAME)
        try:
            self._limits.check_folder(new.path.parent)
            drive, path = await self._tree.at(new.path)
            new = msgspec.structs.replace(new, path=path)
            await self._limits.check_names(drive, new.path)
            self._limits.check_file(new.path.name, new.size)
            await self._check_new(drive, new.size)
            if new.on_conflict is OnConflict.REPLACE:
                drive.require(Right.REPLACE)
            content_type = new.content_type or guess_content_type(new.path.name)
            upload = await drive.begin_upload(
                new.path, content_type, new.on_conflict, size=new.size, modified=new.modified
            )
            details = UploadDetails(
                root=str(drive.root),
                point=str(drive.point),
                content_type=content_type,
                on_conflict=new.on_conflict,
                replaces=new.on_conflict is OnConflict.REPLACE
                or (new.on_conflict is None and drive.allows(Right.REPLACE)),
                metadata=new.metadata,
                parts=parts,
            )
            record = await self._added(drive, upload, details, new.path, new.size)
        except PorticoError as error:
            await note_refusal(self._shared.journal, self._actor.context, "upload", new.path, error)
            raise
        return await self.status(record.id) if new.size == 0 else status_of(record, details)

    async def create_partial(self, size: int | None, metadata: str = "") -> UploadStatus:
        """Begin a part of a file that `Concatenation` will make; nobody sees it before."""
        drive = (await self._tree.drives(Right.UPLOAD))[0]
        record, details = await self._add_partial(drive, size, metadata)
        return await self.status(record.id) if size == 0 else status_of(record, details)

    async def _add_partial(
        self, drive: Drive, size: int | None, metadata: str = "", kind: str = RESUMABLE
    ) -> tuple[UploadRecord, UploadDetails]:
        drive.require(Right.UPLOAD)
        await self._check_new(drive, size)
        upload_id = token_hex(16)
        upload = await drive.begin_partial_upload(upload_id, size)
        details = UploadDetails(str(drive.root), str(drive.point), metadata=metadata, partial=True)
        return await self._added(drive, upload, details, drive.point, size, upload_id, kind), details

    async def status(self, upload_id: str) -> UploadStatus:
        """How much has arrived. A request that still sends is ended first; a complete upload is stored."""
        async with self._access.claimed(upload_id) as (claim, drive):
            details = details_of(claim.record)
            if claim.record.status != OPEN:
                return status_of(claim.record, details)
            upload = await drive.resume_upload(state_of(claim.record), known_offset=claim.record.offset, trusted=False)
            if upload.offset != claim.record.offset:
                await save_progress(claim, upload)
            if upload.offset == claim.record.size:
                return await self._completion.complete(claim, drive, upload, details)
            return status_of(claim.record, details, offset=upload.offset)

    async def append(
        self,
        upload_id: str,
        offset: int,
        chunks: AsyncIterator[bytes],
        *,
        size: int | None = None,
        length: int | None = None,
        interrupt: Callable[[], None] | None = None,
        expected: Collection[ExpectedDigest] = (),
        wanted: WantedDigest = WantedDigest(),
        read_ahead: bool = False,
    ) -> UploadStatus:
        """Add the chunks, `length` bytes if that is known, at `offset`; the last byte stores the file.

        `size` is that of the whole file, if it was not known when the upload was created. `interrupt` ends a wait for
        the next chunk, when another request takes the upload over. `expected` are digests of these chunks; nothing of
        them is kept if they do not match. `wanted`: the digest of the whole file. With `read_ahead`, the first chunks
        may be taken before it is known whether the upload goes on with them.
        """
        async with AsyncExitStack() as stack:
            if read_ahead and not self._shared.reading_ahead.locked():
                await stack.enter_async_context(self._shared.reading_ahead)
                chunks = await stack.enter_async_context(ReadAhead(chunks))
            self._actor.context.release()  # a creation that goes on with its body
            await self._shared.journal.check()  # before a large body is sent in vain
            claim, drive = await stack.enter_async_context(self._access.claimed(upload_id, admitted=False))
            claim.interrupt = interrupt
            details = details_of(claim.record)
            if details.parts:
                raise Forbidden("This upload is joined from other uploads and can't be extended. Start a new upload.")
            if claim.record.status != OPEN:
                if offset == claim.record.offset and not length:
                    return status_of(claim.record, details)
                raise other_offset(claim.record.offset)
            # A client that goes on where the last request ended need not wait until the storage is asked. One that has
            # sent everything may find the file stored.
            agrees = offset == claim.record.offset != claim.record.size
            upload = await drive.resume_upload(state_of(claim.record), known_offset=claim.record.offset, trusted=agrees)
            if offset != upload.offset:
                raise other_offset(upload.offset)
            total = self._agreed_size(claim.record, drive, size)
            whole = self._size_limit(drive) if total is None else total
            limit = SizeLimit(whole, whole - offset, is_announced=total is not None)
            if length is not None and length > limit.left:
                raise limit.error()
            if total != claim.record.size:
                await claim.save(size=total)
            # A hash cannot be continued by another request, so only one that brings the whole file computes it in passing.
            computed = not offset and self._shared.wanted(wanted).computed
            hashing = Hashing(expected, sha256=computed) if expected or computed else None
            watch = self._tree.watch(Standing(self._actor, Path.parse(claim.record.path), Right.UPLOAD))
            arriving = guarded(claim, chunks, limit, watch)
            async with self._content(drive, arriving, length, hashing, held=bool(expected)) as content:
                most = limit.left if length is None else length

                async def save(*, last: bool = False) -> None:
                    await claim.progress(upload.offset, upload.state, last=last and upload.offset != total)

                await upload.append(content, save, at_most=most)
            if upload.offset != total:
                return status_of(claim.record, details, offset=upload.offset, size=total)
            if hashing and not offset:  # otherwise it is the digest of the last request only
                await hashing.check()
                details.sha256 = hashing.sha256
            return await self._completion.complete(claim, drive, upload, details, wanted)

    def _content(
        self, drive: Drive, chunks: AsyncIterator[bytes], length: int | None, hashing: Hashing | None, *, held: bool
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The chunks; if `held`, none of them before all together match their digest."""
        if hashing is None:
            return nullcontext(chunks)
        if not held:
            return nullcontext(hashing.watch(chunks))

        async def create_hidden(size: int | None) -> str:
            return (await self._add_partial(drive, size, kind=HIDDEN))[0].id

        bodies = VerifiedBodies(self._shared.uploads, drive, self._shared.held, create_hidden)
        return bodies.verified(chunks, length, hashing)

    @asynccontextmanager
    async def ended_unless_begun(self, upload_id: str) -> AsyncGenerator[None]:
        """If what follows fails, give the upload up: its client never learns of its id."""
        try:
            yield
        except BaseException:
            try:
                await asyncio.shield(self.end(upload_id))
            except PorticoError as error:  # then it expires
                log.warning("upload-not-ended", code=error.code, cause=error.cause)
            raise

    async def end(self, upload_id: str) -> None:
        """Give an upload up. A file that was stored stays."""
        async with self._access.claimed(upload_id) as (claim, drive):
            await abandon(claim, drive)

    # Their parts

    def _size_limit(self, drive: Drive) -> int:
        return self._limits.most_bytes(drive.size_limit(self._shared.max_file_size))

    async def _check_new(self, drive: Drive, size: int | None) -> None:
        await self._shared.journal.check()
        limit = self._size_limit(drive)
        if size is not None and size > limit:
            raise too_large(limit)

    async def _added(
        self,
        drive: Drive,
        upload: ResumableUpload,
        details: UploadDetails,
        path: Path,
        size: int | None,
        upload_id: str | None = None,
        kind: str = RESUMABLE,
    ) -> UploadRecord:
        """`TooManyRequests` if there are too many unfinished ones."""
        details.guest = self._limits.id
        now = self._shared.now()
        user = self._actor.user
        lifetime = self._shared.lifetime
        record = UploadRecord(
            id=upload_id or token_hex(16),
            user_id=user.id,
            connection=drive.connection,
            status=OPEN,
            path=str(path),
            size=size,
            offset=0,
            details=text_of(details).encode(),
            state=upload.state,
            created_at=now,
            expires_at=now + clock.milliseconds(lifetime if kind == HIDDEN else min(EMPTY_LIFETIME, lifetime)),
            kind=kind,
            link=self._limits.link,
            address=self._limits.network,
        )
        if full := await self._shared.uploads.add(record, {} if kind == HIDDEN else self._most_open):
            raise _too_many(full, self._most_open[full])
        await self._limits.keep(now + clock.milliseconds(lifetime))
        return record

    @property
    def _most_open(self) -> dict[Scope, int]:
        if self._limits.is_guest:
            return {Scope.ADDRESS: MAX_OPEN_OF_ADDRESS, Scope.LINK: MAX_OPEN_OF_LINK}
        return {Scope.USER: MAX_OPEN}

    def _agreed_size(self, record: UploadRecord, drive: Drive, size: int | None) -> int | None:
        known = record.size
        if size is None or size == known:
            return known
        if known is not None:
            raise InvalidRequest(
                f"The upload was declared with {known} bytes, and its size can't be changed. Start a new upload."
            )
        if size < record.offset:
            raise InvalidRequest(
                "The upload already has more bytes than this length. Send the length of the whole file."
            )
        if size > (limit := self._size_limit(drive)):
            raise too_large(limit)
        return size


def _too_many(scope: Scope, most: int) -> TooManyRequests:
    sentence = {
        Scope.USER: f"You have {most} unfinished uploads, or too much metadata in them. Finish or end some of "
        "them first.",
        Scope.ADDRESS: f"Your address has {most} unfinished uploads through this link, or too much metadata in "
        "them. Finish or end some of them first.",
        Scope.LINK: f"This link has {most} unfinished uploads, or too much metadata in them. Try again later.",
    }
    return TooManyRequests(sentence[scope], retry_after=60)
