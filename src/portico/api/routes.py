"""Every address of the gateway in one table, and what each action on a path does."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from portico.api import account, jobs, rewinds, shares, tus
from portico.api.download import download, is_conditional, is_plain, issue_ticket, send
from portico.api.files import activity, archive, archive_of_chosen, delete, make_folder, move_or_copy, search, thumbnail
from portico.api.idempotency import HEADER as IDEMPOTENCY_KEY
from portico.api.idempotency import answered_once
from portico.api.listing import list_folder, show_page, stat, wants_lines
from portico.api.login import login, logout, show_session
from portico.api.pages import FILES, asset, config, docs, file, healthz, index, openapi, readyz
from portico.api.put import put
from portico.api.receipts import receipt_key
from portico.api.requests import FILESYSTEM, GUEST_PAGE, Query, context_of, operations_of, path_of
from portico.api.trash import TRASH, empty_trash, list_trash, remove_trashed, restore
from portico.api.upload import upload
from portico.model.entries import Download
from portico.model.errors import InvalidRequest, IsAFolder, MethodNotAllowed, NotAFolder, NotFound
from portico.model.paths import Path
from portico.model.rights import Right
from portico.operations.operations import Operations
from portico.web import PREFIX


class ReadAction(StrEnum):
    LIST = "LIST"
    DOWNLOAD = "DOWNLOAD"
    STAT = "STAT"
    SEARCH = "SEARCH"
    ACTIVITY = "ACTIVITY"
    THUMBNAIL = "THUMBNAIL"
    ZIP = "ZIP"


class WriteAction(StrEnum):
    MKDIR = "MKDIR"
    MOVE = "MOVE"
    COPY = "COPY"
    TICKET = "TICKET"
    ZIP = "ZIP"


async def _read(request: Request) -> Response:
    context_of(request).action = "read"
    query = Query(request)
    action = query.choice("action", ReadAction)
    ticket = query.get("ticket")
    if ticket is not None and action not in (None, ReadAction.DOWNLOAD, ReadAction.ZIP):
        raise InvalidRequest("A ticket is valid for a download only.")
    operations = await operations_of(request, ticket)
    path = path_of(request)
    if action:
        context_of(request).action = action.lower()
    match action:
        case ReadAction.LIST:
            return await list_folder(request, operations, path, query)
        case ReadAction.DOWNLOAD:
            return await download(request, operations, path)
        case ReadAction.STAT:
            return await stat(request, operations, path, query)
        case ReadAction.SEARCH:
            return await search(operations, path, query)
        case ReadAction.ACTIVITY:
            return await activity(operations, path, query)
        case ReadAction.THUMBNAIL:
            return await thumbnail(request, operations, path, query)
        case ReadAction.ZIP:
            return await archive(request, operations, path)
    if ticket is not None:
        return await download(request, operations, path)
    return await _list_or_download(request, operations, path, query)


async def _list_or_download(request: Request, operations: Operations, path: Path, query: Query) -> Response:
    """Without an action, a folder is listed and a file is sent."""
    downloads = operations.allows(Right.DOWNLOAD, path)
    as_lines = wants_lines(request)
    expects_file = downloads and not as_lines and _resembles_file(request, path, query)
    if operations.lists(path) and not expects_file:
        context_of(request).action = "list"
        try:
            if downloads and not as_lines and not query.is_given and is_plain(request):
                found = await operations.files.read_or_list(path, query.page_size())
                if isinstance(found, Download):
                    return await send(request, operations, path, found)
                return await show_page(operations, path, found)
            return await list_folder(request, operations, path, query, file_first=True)
        except NotAFolder:
            return await download(request, operations, path)
    try:
        return await download(request, operations, path)
    except IsAFolder:
        if not operations.lists(path) and operations.allows(Right.LIST, path):
            raise
        context_of(request).action = "list"
        return await list_folder(request, operations, path, query)  # raises if the right is missing


def _resembles_file(request: Request, path: Path, query: Query) -> bool:
    """Whether it is worth looking for a file first; which of them it is, only the storage knows."""
    if query.is_given or path.is_root or path.as_folder:
        return False
    return "." in path.name[1:-1] or request.method == "HEAD" or is_conditional(request)


async def _write(request: Request) -> Response:
    query = Query(request)
    action = query.choice("action", WriteAction)
    context_of(request).action = action.lower() if action else "upload"
    change: Callable[[], Awaitable[Response]]
    match action:
        case WriteAction.TICKET:  # a secret: its answer is not stored
            return await issue_ticket(request, query)
        case WriteAction.ZIP:
            return await archive_of_chosen(request, query)
        case WriteAction.MKDIR:
            change = partial(make_folder, request)
        case WriteAction.MOVE | WriteAction.COPY:
            change = partial(move_or_copy, request, query, copies=action is WriteAction.COPY)
        case _:
            change = partial(upload, request, query)
    return await _once(request, change)


async def _once(request: Request, change: Callable[[], Awaitable[Response]]) -> Response:
    """Every change goes through this: with a key, it is done once for all requests that repeat it."""
    if IDEMPOTENCY_KEY in request.headers:
        return await answered_once(request, change)
    return await change()


Endpoint = Callable[[Request], Awaitable[Response]]


def _change_as(action: str, change: Endpoint) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        context_of(request).action = action
        return await _once(request, partial(change, request))

    return endpoint


Methods = Mapping[str, Endpoint]

_FILES: Methods = {
    "GET": _read,
    "HEAD": _read,
    "POST": _write,
    "PUT": _change_as("upload", put),
    "DELETE": _change_as("delete", delete),
}


def _page(endpoint: Endpoint) -> Methods:
    return {"GET": endpoint, "HEAD": endpoint}


ROUTES: dict[str, Methods] = {
    FILESYSTEM: _FILES,
    "/backend/login": {"POST": login},
    "/backend/logout": {"POST": logout},
    "/backend/session": _page(show_session),
    account.ACCOUNT: _page(account.show_account),
    account.PASSWORD: {"POST": account.change_password},
    account.SESSIONS: {**_page(account.list_sessions), "DELETE": account.end_other_sessions},
    account.INVITATION: {"POST": account.show_invitation},
    account.INVITATION_PASSWORD: {"POST": account.accept_invitation},
    account.KEYS: {**_page(account.list_keys), "POST": account.add_key},
    tus.UPLOADS: {"OPTIONS": tus.describe, "POST": _change_as("upload", tus.create)},
    jobs.JOBS: _page(jobs.list_jobs),
    rewinds.REWINDS: {"POST": rewinds.start},
    shares.LINKS: {**_page(shares.list_links), "POST": shares.add_link},
    shares.SHARE_SESSIONS: {"POST": shares.open_link},
    TRASH: {**_page(list_trash), "DELETE": _change_as("trash-empty", empty_trash)},
    "/backend/1.0.0/receipts/key": _page(receipt_key),
    "/backend/openapi.json": _page(openapi),
    "/backend/docs": _page(docs),
    "/healthz": _page(healthz),
    "/readyz": _page(readyz),
    "/": _page(index),
    "/invite": _page(index),
    "/config.js": _page(config),
    **{address: _page(file) for address in FILES},
}
ONE_OF_MANY: dict[str, Methods] = {
    account.KEYS: {"DELETE": account.end_key},
    jobs.JOBS: {"GET": jobs.show, "HEAD": jobs.show, "DELETE": jobs.cancel},
    rewinds.REWINDS: _page(rewinds.show),
    account.SESSIONS: {"DELETE": account.end_session},
    TRASH: {"POST": _change_as("restore", restore), "DELETE": _change_as("trash-remove", remove_trashed)},
}
"""By the address without its last segment, which is an id."""
_LINK: dict[str, Methods] = {
    "link": {**_page(shares.show_link), "PATCH": shares.change_link, "DELETE": shares.end_link},
    "address": {"POST": shares.renew_address},
    "accesses": _page(shares.list_accesses),
}
_UPLOAD: Methods = {
    "OPTIONS": tus.describe,
    "HEAD": tus.show,
    "PATCH": tus.append,
    "DELETE": tus.end,
    "POST": tus.post_to_upload,
}
_BY_PREFIX = {PREFIX: _page(asset), f"{tus.UPLOADS}/": _UPLOAD, GUEST_PAGE: _page(shares.guest_page)}


class Routes(Router):
    """Finds the endpoint of an address in one look-up. Errors are for the caller to answer."""

    _FILESYSTEM = FILESYSTEM.encode()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().app(scope, receive, send)
            return
        methods = self._methods(scope)
        endpoint = methods.get(scope["method"])
        if endpoint is None:
            allowed = ", ".join(sorted(methods))
            raise MethodNotAllowed(f"This URL doesn't support this method; use {allowed}.", allowed=set(methods))
        request = Request(scope, receive)
        response = await endpoint(request)
        if context_of(request).link:  # what a guest was sent must not be shown again after the link has ended
            response.headers["Cache-Control"] = "no-store"
        await response(scope, receive, send)

    def _methods(self, scope: Scope) -> Methods:
        # Files are matched by the raw path: in the decoded one, an escaped prefix would match too.
        raw: bytes = scope["raw_path"]
        if raw.startswith(self._FILESYSTEM) and raw[len(self._FILESYSTEM) :][:1] in (b"", b"/"):
            return _FILES
        path: str = scope["path"]
        for prefix, methods in _BY_PREFIX.items():
            if path.startswith(prefix):
                return methods
        if path.startswith(shares.LINKS + "/"):
            return _LINK[shares.link_endpoint(path)]
        try:
            return ROUTES.get(path) or ONE_OF_MANY[path.rpartition("/")[0]]
        except KeyError:
            raise NotFound("This URL doesn't exist. See /backend/docs for the API.") from None
