"""`GET` and `HEAD` on a path: a folder is listed, a file is sent, or what `action` says."""

from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from portico.api.bodies import JsonResponse, entry_body, page_body
from portico.api.download import download
from portico.api.queries import Query, path_of
from portico.api.services import name_action, services_of
from portico.api.session import drive_for, drive_of
from portico.drive import Drive
from portico.errors import Forbidden, InvalidRequest, IsAFolder, NotAFolder
from portico.paths import Path
from portico.rights import Right


class ReadAction(StrEnum):
    LIST = "LIST"
    DOWNLOAD = "DOWNLOAD"
    STAT = "STAT"


async def read(request: Request) -> Response:
    name_action(request, "read")
    query = Query(request)
    action = query.choice("action", ReadAction)
    ticket = query.get("ticket")
    if ticket is not None:
        return await _read_with_ticket(request, ticket, action)
    _, drive = await drive_of(request)
    path = path_of(request)
    match action:
        case ReadAction.LIST:
            return await _list(request, drive, path, query)
        case ReadAction.DOWNLOAD:
            return await download(request, drive, path)
        case ReadAction.STAT:
            name_action(request, "stat")
            return JsonResponse(entry_body(path, await drive.stat(path)))
    return await _read_whatever_it_is(request, drive, path, query)


async def _read_with_ticket(request: Request, ticket: str, action: ReadAction | None) -> Response:
    if action not in (None, ReadAction.DOWNLOAD):
        raise InvalidRequest("A ticket is good for a download only.")
    path = path_of(request)
    services = services_of(request)
    session = await services.tickets.redeem(ticket, str(path))
    request.scope["state"]["user"] = session.user.name  # for the log
    return await download(request, await drive_for(request, session), path)


async def _list(
    request: Request, drive: Drive, path: Path, query: Query, *, file_first: bool = False
) -> Response:
    name_action(request, "list")
    cursor = query.cursor()
    page = await drive.list_page(
        path, query.page_size(), cursor, file_first=file_first and cursor is None and not path.as_folder
    )
    return JsonResponse(page_body(path, page, first=cursor is None))


async def _read_whatever_it_is(request: Request, drive: Drive, path: Path, query: Query) -> Response:
    if not drive.allows(Right.LIST):
        try:
            return await download(request, drive, path)
        except IsAFolder:
            raise Forbidden("You lack the right 'list'; ask the administrator for it.") from None
    try:
        return await _list(request, drive, path, query, file_first=True)
    except NotAFolder:
        return await download(request, drive, path)
