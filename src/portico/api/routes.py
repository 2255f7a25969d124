"""Every address of the gateway in one table, and what each action on a path does."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Lifespan, Receive, Scope, Send

from portico.api import account, jobs, shares, tus
from portico.api.download import download, issue_ticket
from portico.api.files import (
    archive,
    archive_of_chosen,
    copy,
    delete,
    list_folder,
    make_folder,
    move,
    search,
    stat,
    thumbnail,
)
from portico.api.idempotency import HEADER as IDEMPOTENCY_KEY
from portico.api.idempotency import answered_once
from portico.api.login import login, logout, show_session
from portico.api.pages import FILES, asset, config, docs, file, healthz, index, openapi, readyz
from portico.api.put import put
from portico.api.receipts import receipt_key
from portico.api.requests import FILESYSTEM, GUEST_PAGE, Query, context_of, operations_of, path_of
from portico.api.trash import TRASH, empty_trash, list_trash, remove_trashed, restore
from portico.api.upload import upload
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
            return await list_folder(operations, path, query)
        case ReadAction.DOWNLOAD:
            return await download(request, operations, path)
        case ReadAction.STAT:
            return await stat(request, operations, path, query)
        case ReadAction.SEARCH:
            return await search(operations, path, query)
        case ReadAction.THUMBNAIL:
            return await thumbnail(request, operations, path, query)
        case ReadAction.ZIP:
            return await archive(request, operations, path)
    if ticket is not None:
        return await download(request, operations, path)
    return await _list_or_download(request, operations, path, query)


async def _list_or_download(request: Request, operations: Operations, path: Path, query: Query) -> Response:
    """Without an action, a folder is listed and a file is sent."""
    resembles_file = _resembles_file(path, query) and operations.allows(Right.DOWNLOAD)
    if operations.lists and not resembles_file:
        context_of(request).action = "list"
        try:
            return await list_folder(operations, path, query, file_first=True)
        except NotAFolder:
            return await download(request, operations, path)
    try:
        return await download(request, operations, path)
    except IsAFolder:
        if not operations.lists and operations.allows(Right.LIST):
            raise
        context_of(request).action = "list"
        return await list_folder(operations, path, query)  # raises if the right is missing


def _resembles_file(path: Path, query: Query) -> bool:
    """Whether it is worth looking for a file first; which of them it is, only the storage knows."""
    return not query.is_given and not path.is_root and not path.as_folder and "." in path.name[1:-1]


async def _write(request: Request) -> Response:
    query = Query(request)
    action = query.choice("action", WriteAction)
    context_of(request).action = action.lower() if action else "upload"
    if action is WriteAction.TICKET:  # a secret: its answer is not stored
        return await issue_ticket(request, query)
    if action is WriteAction.ZIP:
        return await archive_of_chosen(request, query)
    return await _once(request, lambda: _change(request, query, action))


async def _change(request: Request, query: Query, action: WriteAction | None) -> Response:
    match action:
        case WriteAction.MKDIR:
            return await make_folder(request)
        case WriteAction.MOVE:
            return await move(request, query)
        case WriteAction.COPY:
            return await copy(request, query)
    return await upload(request, query)


async def _put(request: Request) -> Response:
    context_of(request).action = "upload"
    query = Query(request)
    return await _once(request, lambda: put(request, query))


async def _delete(request: Request) -> Response:
    context_of(request).action = "delete"
    query = Query(request)
    return await _once(request, lambda: delete(request, query))


async def _once(request: Request, change: Callable[[], Awaitable[Response]]) -> Response:
    """Every change goes through this: with a key, it is done once for all requests that repeat it."""
    if IDEMPOTENCY_KEY in request.headers:
        return await answered_once(request, change)
    return await change()


async def _create_upload(request: Request) -> Response:
    return await _once(request, lambda: tus.create(request))


async def _restore(request: Request) -> Response:
    context_of(request).action = "restore"
    return await _once(request, lambda: restore(request))


async def _remove_trashed(request: Request) -> Response:
    context_of(request).action = "trash-remove"
    return await _once(request, lambda: remove_trashed(request))


async def _empty_trash(request: Request) -> Response:
    context_of(request).action = "trash-empty"
    return await _once(request, lambda: empty_trash(request))


Methods = Mapping[str, Callable[[Request], Awaitable[Response]]]

_FILES: Methods = {"GET": _read, "HEAD": _read, "POST": _write, "PUT": _put, "DELETE": _delete}


def _page(endpoint: Callable[[Request], Awaitable[Response]]) -> Methods:
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
    tus.UPLOADS: {"OPTIONS": tus.describe, "POST": _create_upload},
    jobs.JOBS: _page(jobs.list_jobs),
    shares.LINKS: {**_page(shares.list_links), "POST": shares.add_link},
    shares.SHARE_SESSIONS: {"POST": shares.open_link},
    TRASH: {**_page(list_trash), "DELETE": _empty_trash},
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
_ASSETS = _page(asset)
ONE_OF_MANY: dict[str, Methods] = {
    account.KEYS: {"DELETE": account.end_key},
    jobs.JOBS: {"GET": jobs.show, "HEAD": jobs.show, "DELETE": jobs.cancel},
    account.SESSIONS: {"DELETE": account.end_session},
    TRASH: {"POST": _restore, "DELETE": _remove_trashed},
}
"""By the address without its last segment, which is an id."""
_GUEST_PAGE = _page(shares.guest_page)
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
            raise MethodNotAllowed(_advice(methods), allowed=set(methods))
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
        if scope["path"].startswith(PREFIX):
            return _ASSETS
        if scope["path"].startswith(tus.UPLOADS + "/"):
            return _UPLOAD
        path: str = scope["path"]
        if path.startswith(GUEST_PAGE):
            return _GUEST_PAGE
        if path.startswith(shares.LINKS + "/"):
            return _LINK[shares.link_endpoint(path)]
        try:
            return ROUTES.get(path) or ONE_OF_MANY[path.rpartition("/")[0]]
        except KeyError:
            raise NotFound("This URL doesn't exist. See /backend/docs for the API.") from None


def _advice(methods: Methods) -> str:
    """What to do instead of a method that is not allowed."""
    return f"This URL doesn't support this method; use {', '.join(sorted(methods))}."


def router(lifespan: Lifespan[Any]) -> Router:
    return Routes(lifespan=lifespan)
