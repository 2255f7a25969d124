"""What is known of a resumable upload: what its client said, what its row holds, and what a front end may show."""

from datetime import UTC, datetime

import msgspec

from portico.drive import OnConflict, ResumableUpload
from portico.entries import Entry
from portico.paths import Path
from portico.store.uploads import Claim, UploadRecord


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
