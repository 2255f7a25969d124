"""`UploadCompletion`: the end of a resumable upload, when all of its bytes have arrived."""

from contextlib import aclosing
from datetime import timedelta

import msgspec
import structlog

from portico.drive.drive import Drive, ResumableUpload
from portico.model.entries import Entry
from portico.model.errors import PorticoError
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Actor, Standing
from portico.operations.actors.auditing import Change
from portico.operations.files.digests import Hashing, WantedDigest
from portico.operations.resources import Resources
from portico.operations.sharing.link_limits import GuestRules, check_commit
from portico.operations.uploads.access import UploadDetails, UploadStatus, save_progress, status_of, text_of
from portico.runtime import clock
from portico.store.uploads import FINISHED, PART, Claim

_KEPT = timedelta(days=1)
"""How long an upload is known after it has ended, so that a client that lost the answer learns of it."""

log = structlog.get_logger()


class UploadCompletion:
    def __init__(self, resources: Resources, actor: Actor) -> None:
        self._resources = resources
        self._actor = actor
        self._rules = GuestRules(resources, actor)

    async def complete(
        self,
        claim: Claim,
        drive: Drive,
        upload: ResumableUpload,
        details: UploadDetails,
        wanted: WantedDigest = WantedDigest(),
    ) -> UploadStatus:
        """Store the file; a partial upload becomes a part that nobody sees."""
        path = stored = Path.parse(claim.record.path)
        if details.partial:
            details.entry = await upload.finish(lambda: save_progress(claim, upload))
        else:
            details.entry = await self._store(claim, drive, upload, details, path)
            stored = path.parent.child(details.entry.name)
            await self._rules.note_upload(stored, upload.offset)
            if self._rules.is_blind:
                details.entry = msgspec.structs.replace(details.entry, name=path.name)
        await claim.save(
            status=PART if details.partial else FINISHED,
            offset=upload.offset,
            size=upload.offset,
            state=upload.state,
            details=text_of(details),
            expires_at=max(claim.record.expires_at, self._resources.now() + clock.milliseconds(_KEPT)),
        )
        wanted = self._resources.wanted(wanted)
        if wanted.computed and not details.partial:
            await self._digest(claim, drive, stored, details.entry, details, wanted)
        return status_of(claim.record, details, offset=upload.offset, size=upload.offset)

    async def _store(
        self, claim: Claim, drive: Drive, upload: ResumableUpload, details: UploadDetails, path: Path
    ) -> Entry:
        async with Change(self._resources.audit, self._actor.context, "upload", path) as change:
            change.line.bytes = upload.offset
            needed = [Right.UPLOAD, *([Right.OVERWRITE] if details.replaces else [])]
            drive.require(*needed)
            await check_commit(self._resources, Standing(self._actor, *needed))
            await self._count(claim, upload, details)
            await change.begin()
            try:
                entry = await drive.finish_upload(
                    upload, path, details.on_conflict, lambda: save_progress(claim, upload)
                )
            except PorticoError:
                await self._discount(claim, upload, details)
                raise
            if entry.name != path.name:
                change.line.path = str(path.parent.child(entry.name))
        return entry

    async def _count(self, claim: Claim, upload: ResumableUpload, details: UploadDetails) -> None:
        """Once, even if the process dies before the file is stored, and another request goes on with it."""
        if self._rules.is_guest and not details.counted:
            async with self._rules.counted(upload.offset):
                details.counted = True
                await claim.save(details=text_of(details))

    async def _discount(self, claim: Claim, upload: ResumableUpload, details: UploadDetails) -> None:
        if details.counted:
            details.counted = False
            await claim.save(details=text_of(details))
            await self._rules.give_back(upload.offset)

    async def _digest(
        self,
        claim: Claim,
        drive: Drive,
        path: Path,
        entry: Entry,
        details: UploadDetails,
        wanted: WantedDigest,
    ) -> None:
        """Compute the digest of the stored file, unless that was done in passing, and remember it."""
        try:
            if details.sha256 is None:
                details.sha256 = await _read_digest(drive, path, entry)
            await claim.save(details=text_of(details))
        except PorticoError as error:
            # The file is stored: that is the answer, even if it lacks the digest.
            log.warning("digest-not-computed", code=error.code, cause=error.cause)
        if wanted.recorded and details.sha256:
            found = (drive.location(path), entry, details.sha256)
            await self._resources.digests.record(self._actor.user.connection, [found])


async def _read_digest(drive: Drive, path: Path, entry: Entry) -> bytes | None:
    hashing = Hashing(sha256=True)
    download = await drive.read_to_compare(path, entry)
    async with aclosing(download.chunks) as chunks:
        async for chunk in chunks:
            await hashing.update(chunk)
    await hashing.check()
    return hashing.sha256
