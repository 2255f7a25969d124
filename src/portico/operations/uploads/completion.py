"""`UploadCompletion`: the end of a resumable upload, when all of its bytes have arrived."""

from datetime import timedelta
from functools import partial

import msgspec
import structlog

from portico.drive.drive import Drive, ResumableUpload
from portico.model.entries import Entry
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Standing
from portico.operations.actors.auditing import Change
from portico.operations.actors.tree import Tree
from portico.operations.files.digests import WantedDigest, sha256_of
from portico.operations.sharing.link_limits import LinkLimits
from portico.operations.uploads.access import (
    UploadDetails,
    UploadServices,
    UploadStatus,
    save_progress,
    status_of,
    text_of,
)
from portico.runtime import clock
from portico.store.uploads import FINISHED, PART, UploadClaim

_KEPT = timedelta(days=1)
"""How long an upload is known after it has ended, so that a client that lost the answer learns of it."""

log = structlog.get_logger()


class UploadCompletion:
    def __init__(self, shared: UploadServices, tree: Tree, limits: LinkLimits) -> None:
        self._shared = shared
        self._tree = tree
        self._actor = tree.actor
        self._limits = limits

    async def complete(
        self,
        claim: UploadClaim,
        drive: Drive,
        upload: ResumableUpload,
        details: UploadDetails,
        wanted: WantedDigest = WantedDigest(),
    ) -> UploadStatus:
        """Store the file; a partial upload becomes a part that nobody sees."""
        path = stored = Path.parse(claim.record.path)
        trash_ids: tuple[str, ...] = ()
        if details.partial:
            details.entry = await upload.finish(partial(save_progress, claim, upload))
        else:
            details.entry, trash_ids = await self._store(claim, drive, upload, details, path)
            stored = path.parent.child(details.entry.name)
            await self._limits.note_upload(stored, upload.offset)
            if self._limits.is_upload_only:
                details.entry = msgspec.structs.replace(details.entry, name=path.name)
        await claim.save(
            status=PART if details.partial else FINISHED,
            offset=upload.offset,
            size=upload.offset,
            state=upload.state,
            details=text_of(details),
            expires_at=max(claim.record.expires_at, self._shared.now() + clock.milliseconds(_KEPT)),
        )
        wanted = self._shared.wanted(wanted)
        if wanted.computed and not details.partial:
            await self._digest(claim, drive, stored, details.entry, details, wanted)
        return status_of(claim.record, details, offset=upload.offset, size=upload.offset, trash_ids=trash_ids)

    async def _store(
        self, claim: UploadClaim, drive: Drive, upload: ResumableUpload, details: UploadDetails, path: Path
    ) -> tuple[Entry, tuple[str, ...]]:
        """The file, and the ids of what the trash keeps of the one before."""
        async with Change(self._shared.journal, self._actor.context, "upload", path) as change:
            change.line.bytes = upload.offset
            needed = [Right.UPLOAD, *([Right.REPLACE] if details.replaces else [])]
            drive.require(*needed)
            await self._tree.check_commit(Standing(self._actor, path, *needed))
            await self._count(claim, upload, details)
            try:
                entry = await drive.finish_upload(
                    upload, path, details.on_conflict, partial(save_progress, claim, upload), change=change
                )
            except PorticoError:
                await self._discount(claim, upload, details)
                raise
            change.hashed(details.sha256)
            if entry.name != path.name:
                change.line.path = str(path.parent.child(entry.name))
        return entry, change.trash_ids

    async def _count(self, claim: UploadClaim, upload: ResumableUpload, details: UploadDetails) -> None:
        """Once, even if the process dies before the file is stored, and another request goes on with it."""
        if self._limits.is_guest and not details.counted:
            async with self._limits.counted(upload.offset):
                details.counted = True
                await claim.save(details=text_of(details))

    async def _discount(self, claim: UploadClaim, upload: ResumableUpload, details: UploadDetails) -> None:
        if details.counted:
            details.counted = False
            await claim.save(details=text_of(details))
            await self._limits.give_back(upload.offset)

    async def _digest(
        self, claim: UploadClaim, drive: Drive, path: Path, entry: Entry, details: UploadDetails, wanted: WantedDigest
    ) -> None:
        """Compute the digest of the stored file, unless that was done in passing, and remember it."""
        try:
            if details.sha256 is None:
                details.sha256 = await sha256_of(await drive.read_to_compare(path, entry))
            await claim.save(details=text_of(details))
        except PorticoError as error:
            # The file is stored: that is the answer, even if it lacks the digest.
            log.warning("digest-not-computed", code=error.code, cause=error.cause)
        if wanted.recorded and details.sha256:
            found = (drive.location(path), entry, details.sha256)
            await self._shared.digests.record(drive.connection, [found])
