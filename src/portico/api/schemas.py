"""The JSON bodies of requests and responses."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from starlette.responses import Response

from portico.api.problems import Problem
from portico.model.entries import FOLDER_TYPE, Entry, Page
from portico.model.paths import Path
from portico.model.reach import Reach
from portico.model.rights import Right, shown


class EntryBody(msgspec.Struct, gc=False, rename="camel"):
    """A file or folder, as a listing and STAT show it."""

    name: str
    absolute_path: str
    type: Literal["REGULAR", "DIRECTORY"]
    content_type: str
    size: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET
    last_modified: str | msgspec.UnsetType = msgspec.UNSET
    exists: bool = True
    is_current_folder: bool = False
    digest: str | msgspec.UnsetType = msgspec.UNSET
    """The SHA-256 of the file, if it was asked for and is known: `sha-256=:Base64:`."""


class PageBody(msgspec.Struct, rename="camel"):
    """A part of a folder's listing; only a nextCursor of null ends it."""

    next_cursor: str | None
    content: list[EntryBody]


class CursorBody(msgspec.Struct, rename="camel"):
    """A line of a listing: the lines behind it can also be asked for with this cursor."""

    next_cursor: str


class EndBody(msgspec.Struct):
    """The last line of a listing that is complete."""

    end: bool = True


class SearchBody(msgspec.Struct, rename="camel"):
    """A part of the results; only a nextCursor of null ends them."""

    next_cursor: str | None
    searched: Annotated[int, msgspec.Meta(ge=0)]
    """How many files and folders were looked at so far."""
    content: list[EntryBody]


class EventBody(msgspec.Struct, rename="camel"):
    """A change of a file or folder."""

    at: str
    action: Literal["stored", "replaced", "made", "deleted", "moved", "copied", "restored", "removed"]
    """`removed`: from the trash, for good."""
    path: str | None
    """The file or folder; of a move or copy, the new path. Null if you can't see it."""
    source: str | None
    """Of a move or copy: the former path, or that of the original. Null if you can't see it."""
    is_folder: bool
    size: Annotated[int, msgspec.Meta(ge=0)] | None
    """In bytes; null for a folder, or if it isn't known."""
    user: str | None
    """Who did it; null if an administrator did."""
    by_link: bool
    """Whether a guest did it, through a share link of this user."""
    guest: str | None
    """The name that the guest has given, if the link is yours."""
    trash_id: str | None
    """Of what was deleted or replaced, if you can restore it."""


class ActivityBody(msgspec.Struct, rename="camel"):
    """A part of the changes, the newest first; only a nextCursor of null ends them."""

    next_cursor: str | None
    events: list[EventBody]


class TrashedBody(msgspec.Struct, rename="camel"):
    """A file or folder that was deleted, or a file that was replaced."""

    id: str
    path: str
    """Where it was, from the user's root."""
    name: str
    is_folder: bool
    size: Annotated[int, msgspec.Meta(ge=0)] | None
    """In bytes; null for a folder."""
    reason: Literal["deleted", "replaced"]
    deleted_by: str | None
    deleted_at: str
    expires_at: str
    """When it is removed for good."""


class TrashBody(msgspec.Struct, rename="camel"):
    """A part of the trash, the newest first; only a nextCursor of null ends it."""

    next_cursor: str | None
    content: list[TrashedBody]


class StoredEntryBody(EntryBody, gc=False, rename="camel"):
    """A file that an upload stored, under its final name."""

    etag: str | msgspec.UnsetType = msgspec.UNSET
    stored_at: str | msgspec.UnsetType = msgspec.UNSET
    receipt_id: str | msgspec.UnsetType = msgspec.UNSET
    receipt: str | msgspec.UnsetType = msgspec.UNSET
    """The signed receipt: a compact JWS."""


class StoredBody(msgspec.Struct):
    """The files that an upload stored, in the order in which they were sent."""

    content: list[StoredEntryBody]


class JobBody(msgspec.Struct, rename="camel"):
    """A change that goes on after its request was answered."""

    id: str
    kind: str
    state: Literal["running", "done", "failed", "cancelled"]
    source: str
    entries_done: Annotated[int, msgspec.Meta(ge=0)]
    bytes_done: Annotated[int, msgspec.Meta(ge=0)]
    started_at: str
    target: str | msgspec.UnsetType = msgspec.UNSET
    """What was asked for."""
    result: str | msgspec.UnsetType = msgspec.UNSET
    """Where it is, if it is done: `onConflict=rename` may have changed the name."""
    entries_total: Annotated[int, msgspec.Meta(ge=0)] | msgspec.UnsetType = msgspec.UNSET
    """How many files there are, if that is known."""
    ended_at: str | msgspec.UnsetType = msgspec.UNSET
    problem: Problem | msgspec.UnsetType = msgspec.UNSET
    """If it failed: what the request would have been answered with."""
    trash_id: str | msgspec.UnsetType = msgspec.UNSET
    """Of what was deleted or replaced, if it can be restored from the trash."""


class JobsBody(msgspec.Struct):
    content: list[JobBody]


class NewRewindBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which of your own changes are to be undone."""

    since: str
    """The time of the first one, such as 2026-11-14T09:30:00Z."""
    until: str | None = None
    """Only those before this time."""
    path: str = "/"
    """Only those in this folder, or of this file."""
    dry_run: bool = False
    """Only return the plan."""


class LeftAloneBody(msgspec.Struct, rename="camel"):
    """Something that isn't undone."""

    path: str | None
    """Null if you can't see it any more."""
    why: Literal[
        "conflict", "not-kept", "not-known", "merged", "outside", "out-of-reach", "no-permission", "changed", "failed"
    ]
    action: str
    """What was done to it, or would be done."""
    at: str | None
    """When you changed it, if that is known."""
    user: str | None
    """For `conflict`: who has changed it since; null for administrators and guests."""
    detail: str | None
    """For `failed`: the reason."""


class RewindStepsBody(msgspec.Struct, rename="camel"):
    """How much there is to do; one step can undo several changes."""

    restore: int
    """Files and folders that are brought back."""
    remove: int
    """… that go to the trash."""
    move: int
    """… that are moved back."""
    make: int
    """Empty folders that are made again."""
    tidy: int
    """Folders that go to the trash if they are empty then."""


class RewindBody(msgspec.Struct, rename="camel"):
    """A rewind of your own changes, or the plan for one."""

    id: str | None
    """Null for a plan."""
    state: Literal["planned", "running", "done", "cancelled", "failed"]
    since: str
    until: str | None
    path: str
    steps: RewindStepsBody
    steps_done: Annotated[int, msgspec.Meta(ge=0)]
    """At least as many were carried out."""
    left_alone: list[LeftAloneBody]
    """The first 1000."""
    left_alone_count: Annotated[int, msgspec.Meta(ge=0)]
    job: JobBody | msgspec.UnsetType = msgspec.UNSET
    """Carries it out, and cancels it. Only in the response that begins it."""


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


class MountBody(msgspec.Struct):
    """A part of the user's tree: a folder with everything below it, up to the mounts in it."""

    path: str
    """The longest path that matches wins."""
    rights: list[Right]
    connection: str | msgspec.UnsetType = msgspec.UNSET
    """Where its files are kept, if the administrator shows it (`page.show-storage`)."""


def mount_bodies(reach: Reach, *, shows_storage: bool = False) -> list[MountBody]:
    """The user's tree without hidden mounts.

    A hidden mount that leads to others, inside a mount that gives more, is a folder that can only be listed.
    """
    bodies = []
    for mount in reach.mounts:
        path = mount.path
        if mount.rights:
            connection = mount.place.connection if shows_storage else msgspec.UNSET
            bodies.append(MountBody(str(path), shown(mount.rights), connection))
        elif not path.is_root and reach.at(path.parent) and reach.is_virtual(path):
            bodies.append(MountBody(str(path), [Right.LIST]))
    return bodies


class SessionBody(msgspec.Struct, rename="camel"):
    username: str
    rights: list[str]
    """The union over all mounts."""
    mounts: list[MountBody]
    expires_at: str | msgspec.UnsetType = msgspec.UNSET
    """When the access token expires; a key has none."""
    key: KeyInUseBody | msgspec.UnsetType = msgspec.UNSET


class TicketBody(msgspec.Struct, rename="camel"):
    ticket: str
    expires_in: int


class HealthBody(msgspec.Struct):
    status: str


Body = TypeVar("Body", bound=EntryBody)
Filled = TypeVar("Filled", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


class JsonResponse(Response):
    """A structure as JSON. Its headers are always the same: they are not put together for each answer."""

    media_type = "application/json"

    def __init__(self, body: msgspec.Struct, status: int = 200, more: Mapping[str, str] = MappingProxyType({})) -> None:
        self.status_code = status
        self.background = None
        self.body = _encode(body)
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", b"%d" % len(self.body)),
            *((name.lower().encode(), value.encode()) for name, value in more.items()),
        ]


def filled(kind: type[Filled], source: object, /, **given: Any) -> Filled:
    """A structure of this kind with what is `given`, and with all else that the source has under the same names."""
    rest = {name: getattr(source, name) for name in kind.__struct_fields__ if hasattr(source, name)}
    return kind(**{**rest, **given})


_MAX_TRASH_IDS = 100
"""In one header. All of them are in the trash."""


def with_trash_ids(response: Response, trash_ids: Sequence[str]) -> Response:
    """The response, which says what the request has put into the trash: "undo" is one more request."""
    if trash_ids:
        response.headers["X-Trash-Id"] = ", ".join(trash_ids[:_MAX_TRASH_IDS])
    return response


def page_body(folder: Path, page: Page, *, first: bool) -> PageBody:
    """The page. The first one begins with an entry for the folder itself."""
    content = entry_bodies(folder, page.entries, EntryBody)
    if first:
        content.insert(0, current_folder(folder))
    return PageBody(page.token, content)


def current_folder(folder: Path) -> EntryBody:
    return EntryBody(folder.name, str(folder), "DIRECTORY", FOLDER_TYPE, is_current_folder=True)


def entry_body(path: Path, entry: Entry) -> EntryBody:
    (body,) = entry_bodies(path.parent, [entry], EntryBody)
    body.absolute_path = str(path)
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
