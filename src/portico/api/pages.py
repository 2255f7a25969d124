"""The page and its files, the documentation, and what monitors ask."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from portico.api.bodies import HealthBody, JsonResponse
from portico.api.docs import docs_page
from portico.api.openapi import document
from portico.api.services import services_of

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _Asset:
    """A file for browsers, with the tag by which they know whether theirs is still good."""

    content: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> "_Asset":
        suffix = name[name.rindex(".") :]
        return cls(content, _MEDIA_TYPES[suffix], f'"{sha256(content).hexdigest()[:32]}"')

    def response(self, request: Request) -> Response:
        headers = {
            "Cache-Control": "no-cache",
            "Content-Security-Policy": PAGE_POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "ETag": self.etag,
        }
        if self.etag in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers={**headers, "Content-Type": self.media_type})


def _files(folder: Traversable, prefix: str = "/") -> Iterator[tuple[str, _Asset]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _files(item, f"{prefix}{item.name}/")
        elif item.name.endswith(tuple(_MEDIA_TYPES)):
            yield prefix + item.name, _Asset.of(item.name, item.read_bytes())


_ASSETS = dict(sorted(_files(files("portico") / "web")))
_ASSETS["/favicon.ico"] = _ASSETS["/icon.svg"]  # asked for where a page names none
_INDEX = _ASSETS.pop("/index.html")
_DOCS = _Asset.of("docs.html", docs_page(document()))
_OPENAPI = msgspec.json.encode(document())

ASSETS = tuple(_ASSETS)
"""The addresses of the page's files, but for the page itself."""


async def index(request: Request) -> Response:
    return _INDEX.response(request)


async def asset(request: Request) -> Response:
    return _ASSETS[request.url.path].response(request)


async def config(request: Request) -> Response:
    """What the page's script must know of this gateway. Nothing of it is confidential."""
    services = services_of(request)
    known = {"clientId": services.client_id, "clientSecret": services.client_secret}
    lines = [
        f"export const {name} = {msgspec.json.encode(value).decode()};\n" for name, value in known.items()
    ]
    return _Asset.of("config.js", "".join(lines).encode()).response(request)


async def openapi(request: Request) -> Response:
    return Response(_OPENAPI, media_type="application/json", headers={"Cache-Control": "no-cache"})


async def docs(request: Request) -> Response:
    return _DOCS.response(request)


async def healthz(request: Request) -> Response:
    """This process answers."""
    return JsonResponse(HealthBody("ok"))


async def readyz(request: Request) -> Response:
    """It can serve: its database answers, and the folders that users have their roots in are there."""
    await services_of(request).ready()
    return JsonResponse(HealthBody("ready"))
