"""Changes to the tree that send no file."""

from starlette.requests import Request
from starlette.responses import Response

from portico.api.jobs import carried_out
from portico.api.requests import Query, address_of, operations_of, path_of
from portico.operations import OnConflict, Operations
from portico.paths import Path


async def make_folder(request: Request) -> Response:
    operations = await operations_of(request)
    path = path_of(request)
    await operations.make_folder(path)
    return Response(status_code=201, headers={"Location": address_of(path)})


async def move(request: Request, query: Query) -> Response:
    on_conflict = query.choice("onConflict", OnConflict)
    source, target = path_of(request), query.target()

    async def change(operations: Operations) -> Path:
        return await operations.move(source, target, on_conflict)

    return await carried_out(request, "move", change, source, target)


async def copy(request: Request, query: Query) -> Response:
    on_conflict = query.choice("onConflict", OnConflict)
    source, target = path_of(request), query.target()

    async def change(operations: Operations) -> Path:
        return await operations.copy(source, target, on_conflict)

    return await carried_out(request, "copy", change, source, target)


async def delete(request: Request, query: Query) -> Response:
    recursive, permanent = query.flag("recursive"), query.flag("permanent")
    path = path_of(request)

    async def change(operations: Operations) -> None:
        await operations.delete(path, recursive=recursive, permanent=permanent)

    return await carried_out(request, "delete", change, path)
