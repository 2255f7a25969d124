"""What is known of a resumable upload: what its client said, what its row holds, and what a front end may show."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec

from portico.drive.drive import Drive, OnConflict, ResumableUpload
from portico.model.entries import Entry
from portico.model.errors import NotFound
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.actors.tree import Tree
from portico.operations.files.digests import WantedDigest
from portico.store.digests import FileDigests
from portico.store.journal import Journal
from portico.store.uploads import UploadClaim, UploadRecord, Uploads

HELD_AT_ONCE = 16
READ_AHEAD_AT_ONCE = 16


class UploadServices(msgspec.Struct, frozen=True):
    journal: Journal
    uploads: Uploads
    digests: FileDigests
    now: Callable[[], int]
    """Milliseconds since the epoch, the same on all nodes."""
    lifetime: timedelta
    """After which an unfinished upload is removed."""
    max_file_size: int
    """Bytes; 0 is no limit."""
    always_digest: bool
    """Whether the SHA-256 of every upload is computed."""
    held: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(HELD_AT_ONCE))
    """Of requests that are held in memory until their digest is known."""
    reading_ahead: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(READ_AHEAD_AT_ONCE))
    """Of requests whose body is read before it is known what becomes of it."""

    def wanted(self, asked: WantedDigest) -> WantedDigest:
        """What will be done, which may be more than was asked for."""
        return WantedDigest(computed=True, recorded=True) if self.always_digest else asked


class UploadAccess:
    def __init__(self, shared: UploadServices, tree: Tree) -> None:
        self._uploads = shared.uploads
        self._now = shared.now
        self._tree = tree
        self._user = tree.actor.user
        self._guest = tree.actor.guest.id if tree.actor.guest else ""

    @asynccontextmanager
    async def claimed(self, upload_id: str, *, admitted: bool = True) -> AsyncGenerator[tuple[UploadClaim, Drive]]:
        """The upload, for this request alone, and the drive that it is for. `admitted`: as in `Tree.at`.

        `NotFound` if it has expired, or the user's files are elsewhere now; `Forbidden` without the right to upload.
        """
        self._tree.mounts(Right.UPLOAD)
        async with self._uploads.claimed(upload_id, self._user.id) as claim:
            if claim is None:
                raise no_such_upload()
            record, details = claim.record, details_of(claim.record)
            drive, _ = await self._tree.at(Path.parse(record.path), admitted=admitted)
            if (
                record.connection != drive.connection
                or (details.root, details.point) != (str(drive.root), str(drive.point))
                or details.guest != self._guest
                or record.expires_at <= self._now()
            ):
                raise no_such_upload()
            drive.require(Right.UPLOAD)
            yield claim, drive


def no_such_upload() -> NotFound:
    return NotFound("This upload doesn't exist or has expired. Send the file again.")


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
    point: str = "/"
    """Where the tree had the root when the upload began."""
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
    trash_ids: Sequence[str] = ()
    """Of the file that it has just replaced, if that is kept."""

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
    record: UploadRecord,
    details: UploadDetails,
    *,
    offset: int | None = None,
    size: int | None = None,
    trash_ids: Sequence[str] = (),
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
        trash_ids,
    )


async def save_progress(claim: UploadClaim, upload: ResumableUpload, *, last: bool = False) -> None:
    """Save how far it is. The claim is kept, because the caller goes on with the upload."""
    await claim.progress(upload.offset, upload.state)
