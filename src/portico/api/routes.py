"""Every address of the gateway, in one table."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import Lifespan, Receive, Scope, Send

from portico.api.changes import delete, write
from portico.api.listing import read
from portico.api.login import login
from portico.api.pages import FILES, asset, config, docs, file, healthz, index, openapi, readyz
from portico.api.problems import instance_of
from portico.api.queries import FILESYSTEM
from portico.api.session import logout, show_session
from portico.errors import MethodNotAllowed, NotFound
from portico.web.bundle import PREFIX

Methods = Mapping[str, Callable[[Request], Awaitable[Response]]]

_FILES: Methods = {"GET": read, "HEAD": read, "POST": write, "DELETE": delete}


def _page(endpoint: Callable[[Request], Awaitable[Response]]) -> Methods:
    return {"GET": endpoint, "HEAD": endpoint}


ROUTES: dict[str, Methods] = {
    FILESYSTEM: _FILES,
    "/backend/login": {"POST": login},
    "/backend/logout": {"POST": logout},
    "/backend/session": _page(show_session),
    "/backend/openapi.json": _page(openapi),
    "/backend/docs": _page(docs),
    "/healthz": _page(healthz),
    "/readyz": _page(readyz),
    "/": _page(index),
    "/config.js": _page(config),
    **{address: _page(file) for address in FILES},
}
_ASSETS = _page(asset)


class Routes(Router):
    """From an address to its endpoint in one look-up; what goes wrong is the caller's to answer."""

    _FILESYSTEM = FILESYSTEM.encode()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().app(scope, receive, send)
            return
        methods = self._methods(scope)
        endpoint = methods.get(scope["method"])
        if endpoint is None:
            raise MethodNotAllowed(_instead(scope, methods), allowed=set(methods))
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)

    def _methods(self, scope: Scope) -> Methods:
        # Files go by the raw path: the decoded one would take an escaped prefix for ours.
        raw: bytes = scope["raw_path"]
        if raw.startswith(self._FILESYSTEM) and raw[len(self._FILESYSTEM) :][:1] in (b"", b"/"):
            return _FILES
        if scope["path"].startswith(PREFIX):
            return _ASSETS
        try:
            return ROUTES[scope["path"]]
        except KeyError:
            raise NotFound("There is nothing at this address; /backend/docs shows what there is.") from None


def _instead(scope: Scope, methods: Methods) -> str:
    """What to do instead of the method that is not known here."""
    if scope["method"] == "PUT" and methods is _FILES:
        address = instance_of(scope)
        folder = address.rstrip("/").rpartition("/")[0] if len(address) > len(FILESYSTEM) + 1 else FILESYSTEM
        return (
            f"A file is not uploaded with PUT here; POST it to its folder, {folder}, as multipart/form-data, in a part "
            "named 'data' that carries the file's name."
        )
    return f"This method is not known here; use {', '.join(sorted(methods))}."


def router(lifespan: Lifespan[Any]) -> Router:
    return Routes(lifespan=lifespan)
