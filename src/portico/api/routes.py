"""Every address of the gateway, in one table."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Lifespan, Receive, Scope, Send

from portico.api.changes import delete, write
from portico.api.listing import read
from portico.api.login import login
from portico.api.pages import ASSETS, asset, config, docs, healthz, index, openapi, readyz
from portico.api.queries import FILESYSTEM
from portico.api.session import logout, show_session
from portico.errors import MethodNotAllowed, NotFound


class Endpoint(Route):
    """A route that refuses an unknown method with an error of ours."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self.methods or set()
        if scope["method"] not in allowed:
            raise MethodNotAllowed(
                f"This method is not known here; use {', '.join(sorted(allowed))}.", allowed=allowed
            )
        await self.app(scope, receive, send)


class FilesystemEndpoint(Endpoint):
    """Everything at and below the file system's address, by the raw path: a pattern on the decoded one would not
    see a line break in a name, and would take an escaped prefix for ours."""

    _PREFIX = FILESYSTEM.encode()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw: bytes = scope["raw_path"] if scope["type"] == "http" else b""
        if raw.startswith(self._PREFIX) and raw[len(self._PREFIX) :][:1] in (b"", b"/"):
            return Match.FULL, {"endpoint": self.endpoint, "path_params": {}}
        return Match.NONE, {}


_BY_METHOD = {"GET": read, "HEAD": read, "POST": write, "DELETE": delete}


async def filesystem(request: Request) -> Response:
    return await _BY_METHOD[request.method](request)


ROUTES = (
    FilesystemEndpoint(FILESYSTEM, filesystem, methods=list(_BY_METHOD)),
    Endpoint("/backend/login", login, methods=["POST"]),
    Endpoint("/backend/logout", logout, methods=["POST"]),
    Endpoint("/backend/session", show_session, methods=["GET"]),
    Endpoint("/backend/openapi.json", openapi, methods=["GET"]),
    Endpoint("/backend/docs", docs, methods=["GET"]),
    Endpoint("/healthz", healthz, methods=["GET"]),
    Endpoint("/readyz", readyz, methods=["GET"]),
    Endpoint("/", index, methods=["GET"]),
    Endpoint("/config.js", config, methods=["GET"]),
    *(Endpoint(address, asset, methods=["GET"]) for address in ASSETS),
)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound("There is nothing at this address; /backend/docs shows what there is.")


def router(lifespan: Lifespan[Any]) -> Router:
    return Router(ROUTES, redirect_slashes=False, default=nothing_here, lifespan=lifespan)
