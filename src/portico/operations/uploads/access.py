"""What is known of a resumable upload: what its client said, what its row holds, and what a front end may show."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from portico.drive.drive import Drive, OnConflict, ResumableUpload
from portico.model.entries import Entry
from portico.model.errors import NotFound
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.actor import Actor
from portico.operations.resources import Resources
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


class NewUpload(msgspec.Struct, frozen=True):
    """What a client says of a file before it sends it."""

    path: Path
    size: int | None = None
    """None if it is not known yet."""
    content_type: str | None = None
    on_conflict: OnConflict | None = None
    modified: datetime | None = None
    metadata: str = ""
    """In the words of the client, who may ask for it."""


class UploadDetails(msgspec.Struct):
    """What the row of an upload holds beside its columns."""

    root: str = ""
    content_type: str = ""
    on_conflict: OnConflict | None = None
    replaces: bool = False
    """Whether an existing file may be replaced: that right is needed until the end."""
    metadata: str = ""
    partial: bool = False
    parts: list[str] | None = None
    """The ids of the partial uploads that make up this one."""
    joined_as: str | None = None
    """Of a partial upload: the id of the upload that it became a part of."""
    entry: Entry | None = None
    """What was stored, once it is finished."""
    sha256: bytes | None = None
    """Of that, if it was asked for."""
    guest: str = ""
    """Who sends it by a share link."""
    counted: bool = False
    """Whether the link has counted it."""


class UploadStatus(msgspec.Struct, frozen=True):
    id: str
    path: Path
    offset: int
    size: int | None
    expires_at: datetime
    metadata: str
    partial: bool
    parts: list[str] | None
    entry: Entry | None
    """What was stored, once the upload has ended."""
    sha256: bytes | None
    """Of that, if it was asked for."""

    @property
    def stored_at(self) -> Path | None:
        return self.path.parent.child(self.entry.name) if self.entry and not self.partial else None


def details_of(record: UploadRecord) -> UploadDetails:
    return msgspec.json.decode(record.details, type=UploadDetails)


def text_of(details: UploadDetails) -> str:
    return msgspec.json.encode(details).decode()


def state_of(record: UploadRecord) -> bytes:
    assert record.state
    return record.state


def status_of(
    record: UploadRecord, details: UploadDetails, *, offset: int | None = None, size: int | None = None
) -> UploadStatus:
    return UploadStatus(
        record.id,
        Path.parse(record.path),
        record.offset if offset is None else offset,
        record.size if size is None else size,
        datetime.fromtimestamp(record.expires_at / 1000, UTC),
        details.metadata,
        details.partial,
        details.parts,
        details.entry,
        details.sha256,
    )


async def save_progress(claim: Claim, upload: ResumableUpload) -> None:
    await claim.progress(upload.offset, upload.state)
