"""`Concatenation`: one file of several partial uploads, which a client has sent at the same time."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial

import msgspec
import structlog

from portico.drive.drive import Drive
from portico.model.errors import InvalidRequest, PorticoError, service_failed
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Standing
from portico.operations.actors.tree import Tree
from portico.operations.files.digests import Hashing, WantedDigest
from portico.operations.sharing.link_limits import LinkLimits
from portico.operations.uploads.access import (
    NewUpload,
    UploadAccess,
    UploadServices,
    UploadStatus,
    details_of,
    save_progress,
    state_of,
    text_of,
)
from portico.operations.uploads.body import SizeLimit, guarded, partial_uploads
from portico.operations.uploads.completion import UploadCompletion
from portico.operations.uploads.resumable import ResumableUploads
from portico.store.uploads import FINISHED, PART, UploadClaim

MAX_PARTS = 256
"""Partial uploads that make up one file."""

log = structlog.get_logger()


class Concatenation:
    def __init__(self, shared: UploadServices, tree: Tree, limits: LinkLimits) -> None:
        self._shared = shared
        self._tree = tree
        self._context = tree.actor.context
        self._uploads = ResumableUploads(shared, tree, limits)
        self._access = UploadAccess(shared, tree)
        self._completion = UploadCompletion(shared, tree, limits)

    async def store(self, new: NewUpload, parts: list[str], wanted: WantedDigest) -> UploadStatus:
        """Store one file that consists of finished partial uploads, in this order."""
        if not 1 <= len(parts) <= MAX_PARTS or len(set(parts)) < len(parts):
            raise InvalidRequest(
                f"A file can be joined from 1 to {MAX_PARTS} different partial uploads; send that many."
            )
        async with AsyncExitStack() as stack:
            # Claimed one after the other in one order, so that two requests for the same parts never wait for each other.
            claims = {part: await stack.enter_async_context(self._access.claimed(part)) for part in sorted(parts)}
            known = [details_of(claims[part][0].record) for part in parts]
            if (final := known[0].joined_as) and all(details.joined_as == final for details in known):
                return await self._uploads.status(final)  # the answer to an earlier request was lost
            if not all(details.partial for details in known) or any(
                claim.record.status != PART for claim, _ in claims.values()
            ):
                raise InvalidRequest("Only complete partial uploads can be joined. Finish them first.")
            size = sum(claim.record.offset for claim, _ in claims.values())
            status = await self._uploads.create(msgspec.structs.replace(new, size=size), parts)
            self._context.release()  # from here on it is an upload, which needs no admission
            if status.entry is None:
                async with self._uploads.ended_unless_begun(status.id):
                    content = partial_uploads([(claims[part][1], part) for part in parts])
                    status = await self._join(status.id, content, size, wanted)
            for claim, drive in claims.values():
                await self._mark_joined(drive, claim, status.id)
            return status

    async def _join(
        self, upload_id: str, content: AsyncIterator[bytes], size: int, wanted: WantedDigest
    ) -> UploadStatus:
        async with self._access.claimed(upload_id) as (claim, drive):
            details = details_of(claim.record)
            upload = await drive.resume_upload(state_of(claim.record))
            hashing = Hashing(sha256=True) if self._shared.wanted(wanted).computed else None
            watch = self._tree.watch(Standing(self._tree.actor, Path.parse(claim.record.path), Right.UPLOAD))
            content = guarded(claim, content, SizeLimit(size, size), watch)
            await upload.append(
                hashing.watch(content) if hashing else content, partial(save_progress, claim, upload), at_most=size
            )
            if upload.offset != size:
                raise service_failed(f"partial uploads of {size} bytes have {upload.offset}")
            if hashing:
                await hashing.check()
                details.sha256 = hashing.sha256
            return await self._completion.complete(claim, drive, upload, details, wanted)

    async def _mark_joined(self, drive: Drive, claim: UploadClaim, final: str) -> None:
        """A part is not needed any more. The file is stored, so nothing that fails here matters to the client."""
        try:
            await drive.remove_partial_upload(claim.record.id)
            details = details_of(claim.record)
            details.joined_as = final
            await claim.save(details=text_of(details), status=FINISHED)
        except PorticoError as error:
            log.warning("partial-upload-not-removed", code=error.code, cause=error.cause, left_to="sweep")
