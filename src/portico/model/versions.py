"""`Version`: what tells the content of a place from what was there before, and will be there later."""

from typing import Final

import msgspec

from portico.model.entries import Entry


class Version(msgspec.Struct, frozen=True, omit_defaults=True):
    size: int = 0
    is_folder: bool = False
    etag: str | None = None
    """What tells its content, wherever it is moved."""
    modified: str = ""
    version: str | None = None
    """As of `Entry`."""
    made_folders: int = 0
    """How many folders above it the change had to make."""
    sha256: str = ""
    """If it is known."""

    def is_same(self, other: "Version | None") -> bool:
        return other is not None and (self.is_folder, self.size, self.etag) == (other.is_folder, other.size, other.etag)


UNSEEN: Final = Version(size=-1)
"""Before a change that has replaced or deleted something unseen, or may have, and that kept nothing."""


def version_of(entry: Entry) -> Version:
    if entry.is_folder:
        return Version(is_folder=True, made_folders=entry.made_folders)
    modified = "" if entry.content_id else str(entry.written or entry.last_modified)
    etag = entry.content_id or entry.etag
    made = entry.made_folders
    return Version(entry.size or 0, etag=etag, modified=modified, version=entry.version, made_folders=made)
