"""The page and its files, the documentation, and what monitors ask."""

from functools import cache
from importlib.resources import files

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.assets import Asset
from portico.api.openapi import docs_page, document
from portico.api.problems import problem_response
from portico.api.requests import may_see_faults, services_of
from portico.api.schemas import HealthBody, JsonResponse
from portico.operations.readiness import NotReady


@cache
def _file(name: str) -> Asset:
    return Asset.of(name, (files("portico") / "web" / name).read_bytes())


@cache
def _docs() -> Asset:
    return Asset.of("docs.html", docs_page(document()))


@cache
def _openapi() -> bytes:
    return msgspec.json.encode(document())


_FILES = {"/portico.css": "portico.css", "/favicon.ico": "icon.svg"}
FILES = tuple(_FILES)
"""Files at addresses of their own, for the documentation."""


async def index(request: Request) -> Response:
    return (await services_of(request).page.get()).index.response(request)


async def asset(request: Request) -> Response:
    return (await services_of(request).page.get()).asset(request.url.path).response(request)


async def file(request: Request) -> Response:
    return _file(_FILES[request.url.path]).response(request)


async def config(request: Request) -> Response:
    """What the page's script knows of this gateway, for other clients. Nothing of it is confidential."""
    return (await services_of(request).page.get()).config.response(request)


async def openapi(request: Request) -> Response:
    return Response(_openapi(), media_type="application/json", headers={"Cache-Control": "no-cache"})


async def docs(request: Request) -> Response:
    return _docs().response(request)


async def healthz(request: Request) -> Response:
    return JsonResponse(HealthBody("ok"))


async def readyz(request: Request) -> Response:
    """This node can serve. Only those who may know learn what is wrong."""
    try:
        await services_of(request).gateway.readiness.check()
    except NotReady as error:
        if not may_see_faults(request):
            return problem_response(request, error)
        return problem_response(request, error, faults={fault.check: fault.detail for fault in error.faults})
    return JsonResponse(HealthBody("ready"))
