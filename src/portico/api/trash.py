"""The trash: what was deleted or replaced, and can be brought back."""

from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response

from portico.api.jobs import carried_out
from portico.api.requests import Query, context_of, last_segment, operations_of
from portico.api.schemas import JsonResponse, TrashBody, TrashedBody, filled
from portico.model import timestamps
from portico.model.errors import InvalidRequest
from portico.model.paths import Path
from portico.operations.actors.auditing import ChangeResult
from portico.operations.files.files import OnConflict
from portico.operations.operations import Operations
from portico.operations.trash import REPLACED, TrashedItem

TRASH = "/backend/1.0.0/trash"


class _Action(StrEnum):
    RESTORE = "RESTORE"


async def list_trash(request: Request) -> Response:
    context_of(request).action = "trash-list"
    query = Query(request)
    page = await (await operations_of(request)).trash.list(query.page_size(), query.get("cursor"))
    return JsonResponse(TrashBody(page.cursor, [_body(item) for item in page.items]))


async def restore(request: Request) -> Response:
    query = Query(request)
    if query.choice("action", _Action) is None:
        raise InvalidRequest("The parameter 'action' must be RESTORE.")
    on_conflict = query.choice("onConflict", OnConflict) or OnConflict.FAIL
    trash_id = last_segment(request)

    async def change(operations: Operations) -> ChangeResult:
        return await operations.trash.restore(trash_id, on_conflict)

    path = await (await operations_of(request)).trash.path_to_restore(trash_id)
    context_of(request).release()  # a job takes an admission slot of its own
    return await carried_out(request, "restore", change, path)


async def remove_trashed(request: Request) -> Response:
    trash_id = last_segment(request)

    async def change(operations: Operations) -> ChangeResult:
        await operations.trash.remove(trash_id)
        return ChangeResult()

    path = await (await operations_of(request)).trash.path_to_remove(trash_id)
    context_of(request).release()
    return await carried_out(request, "remove", change, path)


async def empty_trash(request: Request) -> Response:
    async def change(operations: Operations) -> ChangeResult:
        await operations.trash.empty()
        return ChangeResult()

    return await carried_out(request, "empty", change, Path())


def _body(item: TrashedItem) -> TrashedBody:
    return filled(
        TrashedBody,
        item,
        path=str(item.path),
        name=item.path.name,
        reason="replaced" if item.reason == REPLACED else "deleted",
        deleted_by=item.user,
        deleted_at=timestamps.from_epoch(item.deleted_at),
        expires_at=timestamps.from_epoch(item.expires_at),
    )
