"""The JSON bodies of requests and responses."""

from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from portico.entries import FOLDER_TYPE, Entry, Page
from portico.paths import Path


class EntryBody(msgspec.Struct, gc=False):
    """A file or folder, as a listing and STAT show it."""

    name: str
    absolutePath: str  # noqa: N815
    type: Literal["REGULAR", "DIRECTORY"]
    contentType: str  # noqa: N815
    size: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET
    lastModified: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    exists: bool = True
    isCurrentFolder: bool = False  # noqa: N815
    digest: str | msgspec.UnsetType = msgspec.UNSET
    """The SHA-256 of the file, if it was asked for and is known: `sha-256=:Base64:`."""


class PageBody(msgspec.Struct):
    """A part of a folder's listing; only a nextCursor of null ends it."""

    nextCursor: str | None  # noqa: N815
    content: list[EntryBody]


class StoredBody(msgspec.Struct):
    """The files that an upload stored, in the order in which they were sent, each under its final name."""

    content: list[EntryBody]


class TokenBody(msgspec.Struct):
    access_token: str
    token_type: str
    expires_in: int
    refresh_token: str
    scope: str


class SessionBody(msgspec.Struct):
    username: str
    rights: list[str]
    expiresAt: str  # noqa: N815


class TicketBody(msgspec.Struct):
    ticket: str
    expiresIn: int  # noqa: N815


class HealthBody(msgspec.Struct):
    status: str


_encode = msgspec.json.Encoder().encode


class JsonResponse(Response):
    """A structure as JSON. Its headers are always the same: they are not put together for each answer."""

    media_type = "application/json"

    def __init__(self, body: msgspec.Struct, status: int = 200, *more: tuple[bytes, bytes]) -> None:
        self.status_code = status
        self.background = None
        self.body = _encode(body)
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", b"%d" % len(self.body)),
            *more,
        ]


def page_body(folder: Path, page: Page, *, first: bool) -> PageBody:
    """The page. The first one begins with an entry for the folder itself."""
    content = _entry_bodies(folder, page.entries)
    if first:
        current = EntryBody(folder.name, str(folder), "DIRECTORY", FOLDER_TYPE, isCurrentFolder=True)
        content.insert(0, current)
    return PageBody(page.token, content)


def stored_body(folder: Path, entries: list[Entry]) -> StoredBody:
    return StoredBody(_entry_bodies(folder, entries))


def entry_body(path: Path, entry: Entry) -> EntryBody:
    (body,) = _entry_bodies(path.parent, [entry])
    body.absolutePath = str(path)
    return body


def _entry_bodies(folder: Path, entries: list[Entry]) -> list[EntryBody]:
    above = "/" if folder.is_root else f"{folder}/"
    return [
        EntryBody(
            entry.name,
            above + entry.name,
            "DIRECTORY" if entry.is_folder else "REGULAR",
            entry.content_type,
            msgspec.UNSET if entry.size is None else entry.size,
            entry.last_modified or msgspec.UNSET,
        )
        for entry in entries
    ]
