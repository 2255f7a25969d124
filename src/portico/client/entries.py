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


def entry_of(item: Any) -> Entry:
    match item:
        case {
            "name": str(name),
            "absolutePath": str(path),
            "type": str(kind),
            "contentType": str(content_type),
        }:
            size, modified = item.get("size"), item.get("lastModified")
            if isinstance(size, int | None) and _is_moment(modified):
                return Entry(name, path, kind == "DIRECTORY", size, content_type, modified)
    raise NotAGateway("The answer holds an entry that cannot be understood.")


def _is_moment(text: Any) -> bool:
    """Whether it is a time, or none was told."""
    if text is None:
        return True
    if not isinstance(text, str):
        return False
    if len(text) == 24 and text[19] == "." and text[:4].isdecimal() and text[17:19].isdecimal():
        return True  # as a gateway writes it; a thousand of them are looked at
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def page_of(body: Any, asked: str | None = None) -> Page:
    """The page without the entry for the folder itself; `asked` is the cursor that it was asked for with."""
    match body:
        case {"content": [*items], "nextCursor": str() | None as cursor} if cursor is None or cursor != asked:
            return Page(
                [
                    entry_of(item)
                    for item in items
                    if not (isinstance(item, dict) and item.get("isCurrentFolder"))
                ],
                cursor,
            )
    raise NotAGateway("The answer is not a page of a listing.")
