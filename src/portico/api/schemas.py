"""The JSON bodies of requests and responses."""

from typing import Annotated, Literal, TypeVar

import msgspec
from starlette.responses import Response

from portico.api.problems import Problem
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


class SearchBody(msgspec.Struct):
    """A part of the results; only a nextCursor of null ends them."""

    nextCursor: str | None  # noqa: N815
    searched: Annotated[int, msgspec.Meta(ge=0)]
    """How many files and folders were looked at so far."""
    content: list[EntryBody]


class TrashedBody(msgspec.Struct):
    """A file or folder that was deleted, or a file that was replaced."""

    id: str
    path: str
    """Where it was, from the user's root."""
    name: str
    isFolder: bool  # noqa: N815
    size: Annotated[int, msgspec.Meta(ge=0)] | None
    """In bytes; null for a folder."""
    reason: Literal["deleted", "replaced"]
    deletedBy: str | None  # noqa: N815
    deletedAt: str  # noqa: N815
    expiresAt: str  # noqa: N815
    """When it is removed for good."""


class TrashBody(msgspec.Struct):
    """A part of the trash, the newest first; only a nextCursor of null ends it."""

    nextCursor: str | None  # noqa: N815
    content: list[TrashedBody]


class StoredEntryBody(EntryBody, gc=False):
    """A file that an upload stored, under its final name."""

    etag: str | msgspec.UnsetType = msgspec.UNSET
    storedAt: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    receiptId: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    receipt: str | msgspec.UnsetType = msgspec.UNSET
    """The signed receipt: a compact JWS."""


class StoredBody(msgspec.Struct):
    """The files that an upload stored, in the order in which they were sent."""

    content: list[StoredEntryBody]


class JobBody(msgspec.Struct):
    """A change that goes on after its request was answered."""

    id: str
    kind: str
    state: Literal["running", "done", "failed", "cancelled"]
    source: str
    entriesDone: Annotated[int, msgspec.Meta(ge=0)]  # noqa: N815
    bytesDone: Annotated[int, msgspec.Meta(ge=0)]  # noqa: N815
    startedAt: str  # noqa: N815
    target: str | msgspec.UnsetType = msgspec.UNSET
    """What was asked for."""
    result: str | msgspec.UnsetType = msgspec.UNSET
    """Where it is, if it is done: `onConflict=rename` may have changed the name."""
    entriesTotal: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    """How many files there are, if that is known."""
    endedAt: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    problem: Problem | msgspec.UnsetType = msgspec.UNSET
    """If it failed: what the request would have been answered with."""
    trashId: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    """Of what was deleted, if it can be restored from the trash."""


class JobsBody(msgspec.Struct):
    content: list[JobBody]


class TokenBody(msgspec.Struct):
    access_token: str
    token_type: str
    expires_in: int
    refresh_token: str | msgspec.UnsetType
    """Not in the answer to the gateway's page, which has it in a cookie."""
    scope: str
    username: str | msgspec.UnsetType = msgspec.UNSET
    """Only in the answer to the gateway's page: a new tab does not know it."""


class KeyInUseBody(msgspec.Struct):
    """The API key of the request."""

    id: str
    name: str
    folder: str
    """Of the user's tree: the root of all paths."""


class SessionBody(msgspec.Struct):
    username: str
    rights: list[str]
    expiresAt: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815
    """When the access token expires; a key has none."""
    key: KeyInUseBody | msgspec.UnsetType = msgspec.UNSET


class TicketBody(msgspec.Struct):
    ticket: str
    expiresIn: int  # noqa: N815


class HealthBody(msgspec.Struct):
    status: str


Body = TypeVar("Body", bound=EntryBody)

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
    content = entry_bodies(folder, page.entries, EntryBody)
    if first:
        current = EntryBody(folder.name, str(folder), "DIRECTORY", FOLDER_TYPE, isCurrentFolder=True)
        content.insert(0, current)
    return PageBody(page.token, content)


def entry_body(path: Path, entry: Entry) -> EntryBody:
    (body,) = entry_bodies(path.parent, [entry], EntryBody)
    body.absolutePath = str(path)
    return body


def entry_bodies(folder: Path, entries: list[Entry], kind: type[Body]) -> list[Body]:
    above = "/" if folder.is_root else f"{folder}/"
    return [
        kind(
            entry.name,
            above + entry.name,
            "DIRECTORY" if entry.is_folder else "REGULAR",
            entry.content_type,
            msgspec.UNSET if entry.size is None else entry.size,
            entry.last_modified or msgspec.UNSET,
        )
        for entry in entries
    ]
