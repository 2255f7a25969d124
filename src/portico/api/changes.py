"""Changes to the tree that send no file."""

from starlette.requests import Request
from starlette.responses import Response

from portico.api.requests import Query, address_of, operations_of, path_of
from portico.operations import OnConflict
from portico.paths import Path


async def make_folder(request: Request) -> Response:
    operations = await operations_of(request)
    path = path_of(request)
    await operations.make_folder(path)
    return _created(path)


async def move(request: Request, query: Query) -> Response:
    on_conflict = query.choice("onConflict", OnConflict)
    operations = await operations_of(request)
    return _created(await operations.move(path_of(request), query.target(), on_conflict))


async def copy(request: Request, query: Query) -> Response:
    on_conflict = query.choice("onConflict", OnConflict)
    operations = await operations_of(request)
    return _created(await operations.copy(path_of(request), query.target(), on_conflict))


async def delete(request: Request, query: Query) -> Response:
    recursive = query.flag("recursive")
    operations = await operations_of(request)
    await operations.delete(path_of(request), recursive=recursive)
    return Response(status_code=204)


def _created(path: Path) -> Response:
    return Response(status_code=201, headers={"Location": address_of(path)})
