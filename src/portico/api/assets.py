"""The page's static files, with their caching and security headers."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from portico.model.errors import NotFound
from portico.runtime.tasks import SingleFlight
from portico.web import PREFIX

_OWN_ORIGIN = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "media-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PAGE_POLICY = f"{_OWN_ORIGIN}, script-src *:*{PREFIX}; style-src *:*{PREFIX} *:*/portico.css"
"""Two policies, of which a browser demands both: from this origin, and from where the page's own files are.

In one, 'self' would let users' files run, too, and a path needs a host, which we cannot know behind a proxy.
"""

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

FOR_EVER = "public, max-age=31536000, immutable"


class WebPage:
    """The page of one gateway, and its files at addresses that depend on their content."""

    def __init__(
        self, client_id: str, client_secret: str, thumbnail_types: Collection[str] = (), *, keeps_deleted: bool = True
    ) -> None:
        from portico.web.bundle import build, config_script

        config = {
            "clientId": client_id,
            "clientSecret": client_secret,
            "thumbnailTypes": sorted(thumbnail_types),
            "keepsDeleted": keeps_deleted,
        }
        built = build(config)
        self.index = Asset.of("index.html", built.index)
        self.guest = Asset.of("guest.html", built.guest)
        self.config = Asset.of("config.js", config_script(config).encode())
        self._assets = {
            address: Asset.of(address, content, caching=FOR_EVER) for address, content in built.assets.items()
        }
        self._by_name = {address.rpartition("/")[2]: asset for address, asset in self._assets.items()}
        for asset in self._assets.values():
            _ = asset.packed  # now, in a thread, rather than when a browser waits for it

    def asset(self, address: str) -> "Asset":
        if asset := self._assets.get(address):
            return asset
        # While a new version is rolled out, a browser asks one node for what another one's page names. This node's own
        # file is better than none, as long as nobody keeps it under that address.
        hash_and_name = address.removeprefix(PREFIX).split("/")
        if len(hash_and_name) == 2 and (asset := self._by_name.get(hash_and_name[1])):
            return replace(asset, caching="no-cache")
        raise NotFound("This file of the page doesn't exist. Reload the page.")


class LazyPage:
    """A page that is made when it is first asked for, in a thread: it takes longer than the event loop may be blocked."""

    def __init__(self, make: Callable[[], WebPage]) -> None:
        self._make = make
        self._page: WebPage | None = None
        self._making: SingleFlight[str, WebPage] = SingleFlight()

    async def get(self) -> WebPage:
        if self._page is None:
            self._page = await self._making.run("page", lambda: asyncio.to_thread(self._make))
        return self._page


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str
    etag: str
    caching: str

    @classmethod
    def of(cls, name: str, content: bytes, *, caching: str = "no-cache") -> "Asset":
        suffix = name[name.rindex(".") :]
        tag = sha256(content).hexdigest()[:32]
        return cls(content, _MEDIA_TYPES[suffix], tag, caching)

    @cached_property
    def packed(self) -> bytes:
        from gzip import compress

        return compress(self.content, mtime=0)

    def response(self, request: Request) -> Response:
        packed = _takes_gzip(request.headers.get("Accept-Encoding", ""))
        etag = f'"{self.etag}-gzip"' if packed else f'"{self.etag}"'
        headers = {
            "Cache-Control": self.caching,
            "Content-Security-Policy": PAGE_POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "ETag": etag,
            "Vary": "Accept-Encoding",
        }
        if etag in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=headers)
        headers["Content-Type"] = self.media_type
        if packed:
            return Response(self.packed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(self.content, headers=headers)


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding allows it (RFC 9110, 12.5.3): by its name, else by `*`, and not with a weight of zero."""
    weights = {}
    for coding in accepted.lower().split(","):
        name, _, parameter = coding.partition(";")
        weights[name.strip()] = parameter.replace(" ", "").removeprefix("q=") or "1"
    return weights.get("gzip", weights.get("*", "0")).strip("0.") != ""
