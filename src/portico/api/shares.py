"""Share links: their owners' requests, and how a guest opens one. All else a guest does by the addresses of users."""

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.problems import problem_response
from portico.api.request_body import read_json
from portico.api.requests import GUEST_PAGE, Query, context_of, operations_of, services_of
from portico.api.schemas import EntryBody, JsonResponse, MountBody, entry_body, filled, mount_bodies
from portico.model import timestamps
from portico.model.errors import InvalidRequest, MoreNeeded, NotFound, TooManyRequests
from portico.model.paths import Path
from portico.operations.sharing.guest_sign_in import Visit
from portico.operations.sharing.links import LinkDetails, LinkKind, LinkOptions, Shares

LINKS = "/backend/1.0.0/account/links"
SHARE_SESSIONS = "/backend/1.0.0/share-sessions"

_MAX_ACCESSES = 1000
_ACCESSES = 100

Count = Annotated[int, msgspec.Meta(ge=1)] | None


class LinkOptionsBody(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What the owner decides of a link. What is left out stays as it is; null takes a limit away."""

    title: str | msgspec.UnsetType = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET
    password: str | msgspec.UnsetType | None = msgspec.UNSET
    expires_at: str | msgspec.UnsetType | None = msgspec.UNSET
    max_downloads: Count | msgspec.UnsetType = msgspec.UNSET
    max_uploads: Count | msgspec.UnsetType = msgspec.UNSET
    max_bytes: Count | msgspec.UnsetType = msgspec.UNSET
    types: list[str] | msgspec.UnsetType = msgspec.UNSET
    ask_name: bool | msgspec.UnsetType = msgspec.UNSET
    folder_per_sender: bool | msgspec.UnsetType = msgspec.UNSET

    def options(self) -> LinkOptions:
        end = self.expires_at
        return filled(LinkOptions, self, expires_at=_moment(end) if isinstance(end, str) else end)


class NewLinkBody(LinkOptionsBody, kw_only=True, rename="camel", forbid_unknown_fields=True):
    path: str
    kind: LinkKind = LinkKind.DOWNLOAD


class LinkBody(msgspec.Struct, kw_only=True, rename="camel"):
    """A share link, as its owner sees it. The address is shown when it is made, and never again."""

    id: str
    path: str
    is_folder: bool
    kind: LinkKind
    state: str
    title: str
    note: str
    has_password: bool
    types: list[str]
    ask_name: bool
    folder_per_sender: bool
    max_downloads: int | None
    downloads: int
    max_uploads: int | None
    uploads: int
    max_bytes: int | None
    bytes: int
    created_at: str
    expires_at: str | None
    address: str | msgspec.UnsetType = msgspec.UNSET
    token: str | msgspec.UnsetType = msgspec.UNSET


class LinksBody(msgspec.Struct):
    content: list[LinkBody]


class AccessBody(msgspec.Struct):
    at: str
    action: str
    """`open`, `download`, `zip`, `upload` or `wrong-password`."""
    name: str
    """As the guest gave it."""
    client: str
    path: str
    bytes: int | None


class AccessesBody(msgspec.Struct, rename="camel"):
    next_cursor: str | None
    content: list[AccessBody]


class OpeningBody(msgspec.Struct, forbid_unknown_fields=True):
    """How a link is opened: with the end of its address, or all of it."""

    link: str
    password: str | None = None
    name: str = ""


class VisitBody(msgspec.Struct, kw_only=True, rename="camel"):
    """A guest's token, to be sent as a bearer token, and what the link is for."""

    token: str
    expires_at: str
    kind: LinkKind
    owner: str
    title: str
    note: str
    name: str
    rights: list[str]
    """The union over all mounts."""
    mounts: list[MountBody]
    """Of the shared folder, with paths that start there."""
    types: list[str]
    link_expires_at: str | None
    has_own_folder: bool
    files_left: int | None
    bytes_left: int | None
    file: EntryBody | msgspec.UnsetType = msgspec.UNSET


async def list_links(request: Request) -> Response:
    sharing = await _sharing(request, "share-list")
    return JsonResponse(LinksBody([_link(request, link) for link in await sharing.list()]))


async def add_link(request: Request) -> Response:
    sharing = await _sharing(request, "share-add")
    body = await read_json(request, NewLinkBody, '{"path": "/reports"}')
    link = await sharing.add(Path.parse(body.path), body.kind, body.options())
    return JsonResponse(_link(request, link), 201)


async def show_link(request: Request) -> Response:
    sharing = await _sharing(request, "share-list")
    return JsonResponse(_link(request, await sharing.get(_id(request))))


async def change_link(request: Request) -> Response:
    sharing = await _sharing(request, "share-change")
    body = await read_json(request, LinkOptionsBody, '{"title": "Reports"}')
    return JsonResponse(_link(request, await sharing.change(_id(request), body.options())))


async def end_link(request: Request) -> Response:
    sharing = await _sharing(request, "share-end")
    await sharing.end(_id(request))
    return Response(status_code=204)


async def renew_address(request: Request) -> Response:
    sharing = await _sharing(request, "share-change")
    return JsonResponse(_link(request, await sharing.renew(_id(request))), 201)


async def list_accesses(request: Request) -> Response:
    sharing = await _sharing(request, "share-log")
    query = Query(request)
    size = min(query.page_size(_ACCESSES), _MAX_ACCESSES)
    cursor = query.get("cursor")
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise InvalidRequest("The cursor is malformed; copy it unchanged from the previous page.")
    found = await sharing.accesses(_id(request), size, int(cursor) if cursor else None)
    content = [
        AccessBody(
            timestamps.from_epoch(access.at), access.action, access.name, access.address, access.path, access.bytes
        )
        for _, access in found
    ]
    return JsonResponse(AccessesBody(str(found[-1][0]) if len(found) == size else None, content))


async def open_link(request: Request) -> Response:
    """No session is needed: the link is the credential, with a password if it has one."""
    context_of(request).action = "share-open"
    body = await read_json(request, OpeningBody, '{"link": "https://…/s/…"}')
    # As a browser shows it, the address may have a fragment: the folder that is shown.
    token = body.link.partition("#")[0].partition("?")[0].rstrip("/").rpartition("/")[2]
    visits = services_of(request).gateway.guest_sign_in
    try:
        visit = await visits.open(context_of(request), token, body.password, body.name)
    except MoreNeeded as error:
        return problem_response(request, error, needs=list(error.needs))
    return JsonResponse(_visit(visit), 201)


async def guest_page(request: Request) -> Response:
    """The page of a link; the same for all of them. It is never kept, so that it ends with the link."""
    services = services_of(request)
    response = (await services.page.get()).guest.response(request)
    response.headers["Cache-Control"] = "no-store"
    token = request.scope["path"].removeprefix(GUEST_PAGE)
    try:
        if not await services.gateway.guest_sign_in.is_open(context_of(request), token):
            response.status_code, context_of(request).code = 404, NotFound.code
    except TooManyRequests as error:
        response.status_code, context_of(request).code = 429, error.code
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def link_endpoint(path: str) -> str:
    _, _, part = path.removeprefix(f"{LINKS}/").partition("/")
    if part not in ("", "address", "accesses"):
        raise NotFound("This URL doesn't exist. See /backend/docs for the API.")
    return part or "link"


async def _sharing(request: Request, action: str) -> Shares:
    context_of(request).action = action
    return (await operations_of(request)).shares


def _id(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(f"{LINKS}/").partition("/")[0]


def _moment(text: str) -> int:
    try:
        return round(timestamps.parse(text.strip()).timestamp() * 1000)
    except ValueError:
        raise InvalidRequest("'expiresAt' is not a valid time; use one like 2026-11-14T09:30:00Z.") from None


def _link(request: Request, shared: LinkDetails) -> LinkBody:
    body = filled(
        LinkBody,
        shared.link,
        path=str(shared.path),
        state=shared.state,
        created_at=timestamps.from_epoch(shared.link.created_at),
        expires_at=None if shared.expires_at is None else timestamps.from_epoch(shared.expires_at),
    )
    if shared.token:
        body.token = shared.token
        body.address = f"{services_of(request).public_url}{GUEST_PAGE}{shared.token}"
    return body


def _visit(visit: Visit) -> VisitBody:
    return filled(
        VisitBody,
        visit,
        expires_at=timestamps.from_datetime(visit.expires_at),
        rights=sorted(visit.rights),
        mounts=mount_bodies(visit.reach),
        link_expires_at=None if visit.link_expires_at is None else timestamps.from_epoch(visit.link_expires_at),
        file=entry_body(Path((visit.file.name,)), visit.file) if visit.file else msgspec.UNSET,
    )
