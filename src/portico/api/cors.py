"""CORS: the API for pages of the configured origins, without cookies."""

from collections.abc import Collection

from starlette.types import Scope

from portico.api.requests import FILESYSTEM

Headers = list[tuple[bytes, bytes]]

EXPOSED = (
    "Accept-Ranges, Allow, Content-Disposition, Content-Location, Content-Range, ETag, Idempotency-Key-Lifetime, "
    "Idempotency-Replayed, Location, Preference-Applied, Repr-Digest, Retry-After, WWW-Authenticate, X-Error-Code, "
    "X-Modified, X-Request-Id, X-Trash-Id, Tus-Checksum-Algorithm, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Concat, "
    "Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset"
)
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = (
    "Authorization, Content-Digest, Content-MD5, Content-Type, Digest, Idempotency-Key, If-Match, If-Modified-Since, "
    "If-None-Match, If-Range, If-Unmodified-Since, Prefer, Range, Repr-Digest, Tus-Resumable, Upload-Checksum, "
    "Upload-Concat, Upload-Defer-Length, Upload-Length, Upload-Metadata, Upload-Offset, Want-Repr-Digest, "
    "X-HTTP-Method-Override, X-Modified, X-Request-ID, X-Requested-With"
)
_INTERFACE = FILESYSTEM[: FILESYSTEM.index("/", 1) + 1].encode()
_VARY = (b"vary", b"Origin")
_PREFLIGHT: Headers = [
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", REQUEST_HEADERS.encode()),
    (b"access-control-max-age", b"600"),
]


class Cors:
    def __init__(self, origins: Collection[str]) -> None:
        self._origins = {origin.encode() for origin in origins}

    def headers(self, scope: Scope) -> Headers:
        """CORS headers of the response."""
        if not self._origins or not scope["raw_path"].startswith(_INTERFACE):
            return []
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(origins) != 1 or origins[0] not in self._origins:
            return [_VARY]  # so that no cache sends this response to an allowed origin
        return [
            _VARY,
            (b"access-control-allow-origin", origins[0]),
            (b"access-control-expose-headers", EXPOSED.encode()),
        ]

    def preflight(self, scope: Scope, headers: Headers) -> Headers | None:
        """The response headers of an allowed preflight request, or none."""
        if scope["method"] != "OPTIONS" or len(headers) < 2:
            return None
        asked = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        return _PREFLIGHT if asked else None
