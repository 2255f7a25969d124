"""What listings consist of."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portico.client.errors import NotAGateway


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder."""

    name: str
    path: str
    """From the root on: `/reports/2026.csv`."""
    is_folder: bool
    size: int | None = None
    """Files always have one."""
    content_type: str = ""
    last_modified: str | None = field(default=None, repr=False)
    """As it was sent, such as `2026-11-14T09:30:00.000Z`; `modified` makes a moment of it."""
    etag: str | None = field(default=None, repr=False)
    """Changes whenever the content does. Known to `head` only."""

    @property
    def modified(self) -> datetime | None:
        return datetime.fromisoformat(self.last_modified) if self.last_modified else None


Folder = tuple[str, list[Entry], list[Entry]]
"""What a walk shows of a folder: its path, the folders and the files in it."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a folder's listing; only a cursor of None ends it."""

    entries: list[Entry]
    cursor: str | None


def entry_of(item: dict[str, Any]) -> Entry:
    try:
        return Entry(
            item["name"],
            item["absolutePath"],
            item["type"] == "DIRECTORY",
            item.get("size"),
            item["contentType"],
            item.get("lastModified"),
        )
    except (KeyError, TypeError):
        raise NotAGateway("The answer holds an entry that cannot be understood.") from None


def page_of(body: dict[str, Any]) -> Page:
    """The page without the entry for the folder itself."""
    try:
        items, cursor = body["content"], body["nextCursor"]
    except (KeyError, TypeError):
        raise NotAGateway("The answer is not a page of a listing.") from None
    return Page([entry_of(item) for item in items if not item.get("isCurrentFolder")], cursor)
