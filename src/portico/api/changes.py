"""`POST` with an action, and `DELETE`: what changes the tree without sending a file."""

from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from portico.accounts.tickets import Tickets
from portico.api.auditing import Change
from portico.api.bodies import JsonResponse, TicketBody
from portico.api.queries import Query, address_of, path_of
from portico.api.services import name_action, services_of
from portico.api.session import drive_of
from portico.api.upload import upload
from portico.drive import OnConflict
from portico.errors import IsAFolder
from portico.paths import Path


class WriteAction(StrEnum):
    MKDIR = "MKDIR"
    MOVE = "MOVE"
    COPY = "COPY"
    TICKET = "TICKET"


async def write(request: Request) -> Response:
    query = Query(request)
    match query.choice("action", WriteAction):
        case WriteAction.MKDIR:
            return await _make_folder(request)
        case WriteAction.MOVE | WriteAction.COPY as action:
            return await _transfer(request, query, action)
        case WriteAction.TICKET:
            return await _ticket(request)
    return await upload(request, query)


async def delete(request: Request) -> Response:
    name_action(request, "delete")
    query = Query(request)
    recursive = query.flag("recursive")
    _, drive = await drive_of(request)
    path = path_of(request)
    with Change(request, "delete", path) as change:
        change.begin()
        if recursive:
            await services_of(request).long_work.run(request, drive.delete(path, recursive=True))
        else:
            await drive.delete(path)
    return Response(status_code=204)


async def _make_folder(request: Request) -> Response:
    name_action(request, "mkdir")
    _, drive = await drive_of(request)
    path = path_of(request)
    with Change(request, "mkdir", path) as change:
        change.begin()
        await drive.make_folder(path)
    return _created(path)


async def _transfer(request: Request, query: Query, action: WriteAction) -> Response:
    name = action.lower()
    name_action(request, name)
    on_conflict = query.choice("onConflict", OnConflict)
    _, drive = await drive_of(request)
    source, target = path_of(request), query.target()
    transfer = drive.move if action is WriteAction.MOVE else drive.copy
    with Change(request, name, source, target) as change:
        change.begin()
        place = await services_of(request).long_work.run(request, transfer(source, target, on_conflict))
        change.line.target = str(place)
    return _created(place)


async def _ticket(request: Request) -> Response:
    name_action(request, "ticket")
    session, drive = await drive_of(request)
    path = path_of(request)
    if (await drive.describe(path)).is_folder:
        raise IsAFolder(f"'{path.name}' is a folder; a ticket is for a file.")
    ticket = await services_of(request).tickets.issue(session, str(path))
    return JsonResponse(TicketBody(ticket, Tickets.LIFETIME))


def _created(path: Path) -> Response:
    return Response(status_code=201, headers={"Location": address_of(path)})
