"""Entries and pages of a listing."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from portico.client.errors import NotAGateway


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    path: str
    """From the user's root: `/reports/2026.csv`."""
    is_folder: bool
    size: int | None = None
    """Always set for files."""
    content_type: str = ""
    last_modified: str | None = field(default=None, repr=False)
    """As sent, such as `2026-11-14T09:30:00.000Z`; `modified` is the parsed time."""
    etag: str | None = field(default=None, repr=False)
    """Changes with the content. `head` sets it, and an upload."""
    digest: str | None = field(default=None, repr=False)
    """The SHA-256 as `sha-256=:Base64:`, if the gateway has computed it. An upload sets it, and `head`."""
    receipt: str | None = field(default=None, repr=False)
    """The signed receipt of an upload that asked for one."""

    @property
    def modified(self) -> datetime | None:
        return datetime.fromisoformat(self.last_modified) if self.last_modified else None


Folder = tuple[str, list[Entry], list[Entry]]
"""One step of a walk: the folder's path, its folders and its files."""


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a listing; it is the last if the cursor is None."""

    items: list[Item]
    cursor: str | None


def entry_of(item: Any) -> Entry:
    match item:
        case {"name": str(name), "absolutePath": str(path), "type": str(kind), "contentType": str(content_type)}:
            size, modified = item.get("size"), item.get("lastModified")
            if isinstance(size, int | None) and _is_timestamp(modified):
                etag, digest, receipt = (item.get(key) for key in ("etag", "digest", "receipt"))
                if all(isinstance(text, str | None) for text in (etag, digest, receipt)):
                    quoted = f'"{etag}"' if etag else None  # as in headers
                    return Entry(name, path, kind == "DIRECTORY", size, content_type, modified, quoted, digest, receipt)
    raise NotAGateway("The response contains an invalid entry.")


def _is_timestamp(text: Any) -> bool:
    """Whether it is a valid time, or absent."""
    if text is None:
        return True
    if not isinstance(text, str):
        return False
    if len(text) == 24 and text[19] == "." and text[:4].isdecimal() and text[17:19].isdecimal():
        return True  # the gateway's own format, checked quickly for pages of a thousand
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def timestamp(text: str | None) -> str | None:
    """A time in a header; None if it is not valid."""
    return text if _is_timestamp(text) else None


def page_of(body: Any, asked: str | None = None) -> Page[Entry]:
    """The page without the entry of the folder itself; `asked` is the cursor of the request."""
    match body:
        case {"content": [*items], "nextCursor": str() | None as cursor} if cursor is None or cursor != asked:
            return Page(
                [entry_of(item) for item in items if not (isinstance(item, dict) and item.get("isCurrentFolder"))],
                cursor,
            )
    raise NotAGateway("The response is not a page of a listing. Check that the address is a Portico gateway's.")


def items_of(body: Any) -> list[Any]:
    match body:
        case {"content": [*items]}:
            return items
    raise NotAGateway("The response is not a list.")


def camel(name: str) -> str:
    """`expires_at` as `expiresAt`, as the API writes it."""
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
