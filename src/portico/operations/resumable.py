"""`ResumableUploads`: files that an actor sends in several requests, to any worker of any node."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex
from typing import Protocol

import msgspec
import structlog

from portico.drive import Drive, OnConflict, ResumableUpload
from portico.entries import Entry, guess_content_type
from portico.errors import (
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSignedIn,
    OffsetMismatch,
    PorticoError,
    TooLarge,
    TooManyRequests,
    service_failed,
)
from portico.operations.actor import Actor
from portico.operations.auditing import Change
from portico.operations.hashing import ExpectedDigest, Hashing
from portico.operations.resources import Resources
from portico.operations.upload_expiry import abandon
from portico.operations.upload_status import (
    NewUpload,
    UploadDetails,
    UploadStatus,
    details_of,
    state_of,
    status_of,
    text_of,
)
from portico.paths import Path
from portico.rights import Right
from portico.store.uploads import FINISHED, OPEN, PART, Claim, UploadRecord

MAX_OPEN = 1000
"""Unfinished uploads of one user."""
MAX_PARTS = 256
"""Partial uploads that make up one file."""
_HELD_BYTES = 8 * 2**20
"""A request of this size is held in memory until its checksum is known to match."""
_FINISHED_KEPT = timedelta(days=1)
"""How long an upload is known after it has ended, so that a client that lost the answer learns of it."""
_MILLISECOND = timedelta(milliseconds=1)

log = structlog.get_logger()


class OpenDrive(Protocol):
    def __call__(self, *, admitted: bool = True) -> Awaitable[Drive]: ...


class ResumableUploads:
    def __init__(self, resources: Resources, actor: Actor, drive: OpenDrive) -> None:
        self._resources = resources
        self._actor = actor
        self._drive = drive

    # The operations

    async def create(self, new: NewUpload, parts: list[str] | None = None) -> UploadStatus:
        """Begin an upload. One of no bytes is stored at once."""
        async with self._refusals_audited(new.path):
            drive = await self._open()
            await self._check_new(drive, new.size)
            if new.on_conflict is OnConflict.REPLACE:
                drive.require(Right.OVERWRITE)
            content_type = new.content_type or guess_content_type(new.path.name)
            upload = await drive.begin_upload(
                new.path, content_type, new.on_conflict, size=new.size, modified=new.modified
            )
        details = UploadDetails(
            root=str(drive.root),
            content_type=content_type,
            on_conflict=new.on_conflict,
            replaces=new.on_conflict is OnConflict.REPLACE
            or (new.on_conflict is None and drive.allows(Right.OVERWRITE)),
            metadata=new.metadata,
            parts=parts,
        )
        return await self._added(upload, details, new.path, new.size)

    async def create_partial(self, size: int | None, metadata: str = "") -> UploadStatus:
        """Begin a part of a file that `concatenate` will make; nobody sees it before."""
        drive = await self._open()
        drive.require(Right.UPLOAD)
        await self._check_new(drive, size)
        upload_id = token_hex(16)
        upload = await drive.begin_partial_upload(upload_id, size)
        details = UploadDetails(str(drive.root), "", metadata=metadata, partial=True)
        return await self._added(upload, details, Path(), size, upload_id)

    async def concatenate(
        self, new: NewUpload, parts: list[str], *, sha256: bool = False, record: bool = False
    ) -> UploadStatus:
        """Store one file that consists of finished partial uploads, in this order."""
        if not 1 <= len(parts) <= MAX_PARTS or len(set(parts)) < len(parts):
            raise InvalidRequest(f"A file is made of 1 to {MAX_PARTS} different partial uploads.")
        drive = await self._open()
        known = [await self._known(drive, part) for part in parts]
        if (final := known[0][1].joined_as) and all(details.joined_as == final for _, details in known):
            return await self.status(final)  # the answer to an earlier request was lost
        if not all(details.partial and row.status == PART for row, details in known):
            raise InvalidRequest("Only partial uploads that are complete can be joined; finish them first.")
        size = sum(row.offset for row, _ in known)
        status = await self.create(msgspec.structs.replace(new, size=size), parts)
        self._actor.context.release()  # from here on it is an upload, which needs no admission
        if status.entry is None:
            async with self.ended_unless_begun(status.id):
                status = await self._join(drive, status.id, parts, size, sha256=sha256, record=record)
        for part in parts:
            await self._mark_joined(drive, part, status.id)
        return status

    async def _join(
        self, drive: Drive, upload_id: str, parts: list[str], size: int, *, sha256: bool, record: bool
    ) -> UploadStatus:
        async with self._claimed(drive, upload_id) as claim:
            details = details_of(claim.record)
            upload = await drive.resume_upload(state_of(claim.record))
            content = _guarded(claim, _joined(drive, parts), _Room(size, size))
            await upload.append(content, lambda: _save(claim, upload), at_most=size)
            if upload.offset != size:
                raise service_failed(f"partial uploads of {size} bytes have {upload.offset}")
            return await self._finish(claim, drive, upload, details, sha256=sha256, record=record)

    async def _mark_joined(self, drive: Drive, part: str, final: str) -> None:
        """A part is not needed any more. The file is stored, so nothing that fails here matters to the client."""
        try:
            await drive.remove_partial_upload(part)
            async with self._claimed(drive, part) as claim:
                details = details_of(claim.record)
                details.joined_as = final
                await claim.save(details=text_of(details), status=FINISHED)
        except PorticoError as error:
            log.warning("partial-upload-not-removed", code=error.code, cause=error.cause, left_to="sweep")

    async def status(self, upload_id: str) -> UploadStatus:
        """How much has arrived. A request that still sends is ended first; a complete upload is stored."""
        drive = await self._open()
        async with self._claimed(drive, upload_id) as claim:
            details = details_of(claim.record)
            if claim.record.status != OPEN:
                return status_of(claim.record, details)
            upload = await drive.resume_upload(state_of(claim.record))
            if upload.offset != claim.record.offset:
                await _save(claim, upload)
            if upload.offset == claim.record.size:
                return await self._finish(claim, drive, upload, details)
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
        sha256: bool = False,
        record: bool = False,
    ) -> UploadStatus:
        """Add the chunks, `length` bytes if that is known, at `offset`; the last byte stores the file.

        `size` is that of the whole file, if it was not known when the upload was created. `interrupt` ends a wait for the
        next chunk, when another request takes the upload over. `expected` are digests of these
        chunks; nothing of them is kept if they do not match. `sha256`: that of the whole file is computed; with `record`,
        it is also remembered.
        """
        drive = await self._open(admitted=False)
        self._actor.context.release()  # a creation that goes on with its body
        await self._resources.audit.check()  # before a large body is sent in vain
        async with self._claimed(drive, upload_id) as claim:
            claim.interrupt = interrupt
            details = details_of(claim.record)
            if details.parts:
                raise Forbidden("This upload is made of others; nothing can be added to it.")
            if claim.record.status != OPEN:
                if offset == claim.record.offset and not length:
                    return status_of(claim.record, details)
                raise _other_offset(claim.record.offset)
            upload = await drive.resume_upload(state_of(claim.record))
            if offset != upload.offset:
                raise _other_offset(upload.offset)
            total = await self._agreed_size(claim, drive, size)
            limit = self._limit(drive) if total is None else total
            room = _Room(limit, limit - offset, is_announced=total is not None)
            if length is not None and length > room.left:
                raise room.error()
            record = record or self._resources.always_digest
            sha256 = sha256 or record
            # A hash cannot be continued by another request, so only one that brings the whole file computes it in passing.
            hashing = Hashing(expected, sha256=sha256 and not offset) if expected or sha256 else None
            arriving = _guarded(claim, chunks, room)
            async with self._verified(drive, arriving, length, hashing, held=bool(expected)) as content:
                most = room.left if length is None else length

                async def save() -> None:
                    # What is saved last also lets go of the upload, unless the file is to be stored.
                    last = length is not None and upload.offset == offset + length != total
                    await claim.progress(upload.offset, upload.state, last=last)

                await upload.append(content, save, at_most=most)
            if upload.offset == total:
                if hashing and not offset:  # otherwise it is the digest of the last request only
                    await hashing.check()
                    details.sha256 = hashing.sha256
                return await self._finish(claim, drive, upload, details, sha256=sha256, record=record)
            return status_of(claim.record, details, offset=upload.offset, size=total)

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
        drive = await self._open()
        async with self._claimed(drive, upload_id) as claim:
            await abandon(claim, drive)

    # Their parts

    async def _open(self, *, admitted: bool = True) -> Drive:
        self._actor.context.action = "upload"
        return await self._drive(admitted=admitted)

    @asynccontextmanager
    async def _refusals_audited(self, path: Path) -> AsyncGenerator[None]:
        """An upload that may not begin has a line in the audit log, as one in a single request."""
        try:
            yield
        except PorticoError as error:
            async with Change(self._resources.audit, self._actor.context, "upload", path) as change:
                change.line.outcome = error.code
            raise

    async def _check_new(self, drive: Drive, size: int | None) -> None:
        await self._resources.audit.check()
        if size is not None and size > self._limit(drive):
            raise _too_large(self._limit(drive))
        if await self._resources.uploads.open_by(self._actor.session.user.id) >= MAX_OPEN:
            raise TooManyRequests(
                f"You have {MAX_OPEN} unfinished uploads; finish or end some of them first.", retry_after=60
            )

    def _limit(self, drive: Drive) -> int:
        return min(self._resources.max_file_size or drive.max_file_size, drive.max_file_size)

    async def _added(
        self,
        upload: ResumableUpload,
        details: UploadDetails,
        path: Path,
        size: int | None,
        upload_id: str | None = None,
    ) -> UploadStatus:
        now = self._resources.now()
        user = self._actor.session.user
        record = UploadRecord(
            id=upload_id or token_hex(16),
            user_id=user.id,
            connection=user.connection,
            status=OPEN,
            path=str(path),
            size=size,
            offset=0,
            details=text_of(details).encode(),
            state=upload.state,
            created_at=now,
            expires_at=now + self._resources.upload_lifetime // _MILLISECOND,
        )
        await self._resources.uploads.add(record)
        return await self.status(record.id) if size == 0 else status_of(record, details)

    @asynccontextmanager
    async def _claimed(self, drive: Drive, upload_id: str) -> AsyncGenerator[Claim]:
        user = self._actor.session.user
        async with self._resources.uploads.claimed(upload_id, user.id) as claim:
            if claim is None:
                raise _gone()
            self._check_known(drive, claim.record)
            yield claim

    async def _known(self, drive: Drive, upload_id: str) -> tuple[UploadRecord, UploadDetails]:
        """An upload of this user, which may be written by another request at the moment."""
        record = await self._resources.uploads.get(upload_id)
        if record is None or record.user_id != self._actor.session.user.id:
            raise _gone()
        return record, self._check_known(drive, record)

    def _check_known(self, drive: Drive, record: UploadRecord) -> UploadDetails:
        """`NotFound` if it has expired, or the user's files are elsewhere now."""
        details = details_of(record)
        if (
            record.connection != self._actor.session.user.connection
            or details.root != str(drive.root)
            or record.expires_at <= self._resources.now()
        ):
            raise _gone()
        return details

    @asynccontextmanager
    async def _verified(
        self,
        drive: Drive,
        chunks: AsyncIterator[bytes],
        length: int | None,
        hashing: Hashing | None,
        *,
        held: bool,
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The chunks; if `held`, none of them before all together match their digest: a service cannot take bytes back.

        A few are held in memory, more are stored as a hidden upload of their own and read again.
        """
        if hashing is None:
            yield chunks
        elif not held:
            yield hashing.watch(chunks)
        elif length is not None and length <= _HELD_BYTES and not self._resources.held.locked():
            async with self._resources.held:
                content = [chunk async for chunk in hashing.watch(chunks)]
                await hashing.check()
                yield _each(content)
        else:
            part = await self.create_partial(length)
            self._actor.context.release()
            async with self._claimed(drive, part.id) as claim:
                try:
                    upload = await drive.resume_upload(state_of(claim.record))
                    await upload.append(hashing.watch(chunks), lambda: _save(claim, upload), at_most=length)
                    await hashing.check()
                    await upload.finish(lambda: _save(claim, upload))
                    yield _joined(drive, [part.id])
                finally:
                    await asyncio.shield(abandon(claim, drive))

    async def _agreed_size(self, claim: Claim, drive: Drive, size: int | None) -> int | None:
        known = claim.record.size
        if size is None or size == known:
            return known
        if known is not None:
            raise InvalidRequest(f"The upload was announced with {known} bytes; that cannot be changed.")
        if size < claim.record.offset:
            raise InvalidRequest("More has arrived than this length; send the length of the whole file.")
        if size > self._limit(drive):
            raise _too_large(self._limit(drive))
        await claim.save(size=size)
        return size

    async def _finish(
        self,
        claim: Claim,
        drive: Drive,
        upload: ResumableUpload,
        details: UploadDetails,
        *,
        sha256: bool = False,
        record: bool = False,
    ) -> UploadStatus:
        record = record or self._resources.always_digest
        path = Path.parse(claim.record.path)
        if details.partial:
            details.entry = await upload.finish(lambda: _save(claim, upload))
        else:
            async with Change(self._resources.audit, self._actor.context, "upload", path) as change:
                change.line.bytes = upload.offset
                if details.replaces:
                    drive.require(Right.OVERWRITE)
                await self._check_user()
                await change.begin()
                details.entry = await drive.finish_upload(
                    upload, path, details.on_conflict, lambda: _save(claim, upload)
                )
                if details.entry.name != path.name:
                    change.line.path = str(path.parent.child(details.entry.name))
        await claim.save(
            status=PART if details.partial else FINISHED,
            offset=upload.offset,
            size=upload.offset,
            state=upload.state,
            details=text_of(details),
            expires_at=max(claim.record.expires_at, self._resources.now() + _FINISHED_KEPT // _MILLISECOND),
        )
        if (sha256 or record) and not details.partial:
            await self._digest(claim, drive, path.parent.child(details.entry.name), details, record=record)
        return status_of(claim.record, details, offset=upload.offset, size=upload.offset)

    async def _digest(
        self, claim: Claim, drive: Drive, path: Path, details: UploadDetails, *, record: bool
    ) -> None:
        """Compute the digest of the stored file, unless that is done, and remember it."""
        assert details.entry
        try:
            if details.sha256 is None:
                details.sha256 = await _read_digest(drive, path, details.entry)
            await claim.save(details=text_of(details))
        except PorticoError as error:  # the file is stored
            log.warning("digest-not-computed", code=error.code, cause=error.cause)
        if record and details.sha256:
            found = (drive.location(path), details.entry, details.sha256)
            await self._resources.digests.record(self._actor.session.user.connection, [found])

    async def _check_user(self) -> None:
        if not await self._resources.sessions.is_enabled(self._actor.session.user.id):
            raise NotSignedIn("The account was disabled during the upload; the file was not stored.")


async def _guarded(claim: Claim, chunks: AsyncIterator[bytes], room: "_Room") -> AsyncIterator[bytes]:
    """The chunks, until there are too many or the upload is taken over."""
    while True:
        claim.check()
        try:
            chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except Exception:
            claim.check()  # then it was interrupted
            raise
        room.left -= len(chunk)
        if room.left < 0:
            raise room.error()
        yield chunk


@dataclass(slots=True)
class _Room:
    """How many bytes an upload still takes."""

    size: int
    """Of the whole file."""
    left: int
    is_announced: bool = True
    """Whether the client has said the size, or it is the limit."""

    def error(self) -> TooLarge:
        if self.is_announced:
            return TooLarge(f"The upload was announced with {self.size} bytes; this is more.")
        return _too_large(self.size)


async def _each(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def _read_digest(drive: Drive, path: Path, entry: Entry) -> bytes | None:
    hashing = Hashing(sha256=True)
    download = await drive.read_to_compare(path, entry)
    async with aclosing(download.chunks) as chunks:
        async for chunk in chunks:
            await hashing.update(chunk)
    await hashing.check()
    return hashing.sha256


async def _joined(drive: Drive, parts: list[str]) -> AsyncIterator[bytes]:
    for part in parts:
        download = await drive.read_partial_upload(part)
        async with aclosing(download.chunks) as chunks:
            async for chunk in chunks:
                yield chunk


async def _save(claim: Claim, upload: ResumableUpload) -> None:
    await claim.progress(upload.offset, upload.state)


def _gone() -> NotFound:
    return NotFound("There is no such upload, or it has expired; send the file again.")


def _other_offset(offset: int) -> OffsetMismatch:
    return OffsetMismatch(f"The upload has {offset} bytes; go on from there.")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"A file may have {limit} bytes at most.")
