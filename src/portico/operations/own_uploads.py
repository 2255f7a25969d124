"""`OwnUploads`: the resumable uploads that one actor may use now."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from portico.drive import Drive
from portico.errors import NotFound
from portico.operations.actor import Actor
from portico.operations.resources import Resources
from portico.operations.upload_status import details_of
from portico.rights import Right
from portico.store.uploads import Claim, UploadRecord


class OwnUploads:
    def __init__(self, resources: Resources, actor: Actor) -> None:
        self._uploads = resources.uploads
        self._now = resources.now
        self._user = actor.user
        self._guest = actor.guest.id if actor.guest else ""

    @asynccontextmanager
    async def claimed(self, drive: Drive, upload_id: str) -> AsyncGenerator[Claim]:
        """The upload, for this request alone. `NotFound` if there is none."""
        async with self._uploads.claimed(upload_id, self._user.id) as claim:
            if claim is None:
                raise no_such_upload()
            self._check(drive, claim.record)
            yield claim

    def _check(self, drive: Drive, record: UploadRecord) -> None:
        """`NotFound` if it has expired, or the user's files are elsewhere now; `Forbidden` without the right to upload."""
        drive.require(Right.UPLOAD)
        details = details_of(record)
        if (
            record.connection != self._user.connection
            or details.root != str(drive.root)
            or details.guest != self._guest
            or record.expires_at <= self._now()
        ):
            raise no_such_upload()


def no_such_upload() -> NotFound:
    return NotFound("There is no such upload, or it has expired; send the file again.")
