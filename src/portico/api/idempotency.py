"""`Idempotency-Key`: a request that is sent again gets the answer of the first one (draft-ietf-httpapi-idempotency-key-header)."""

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from portico.api.problems import Problem, problem_response, status_of
from portico.api.requests import actor_of, context_of, services_of, single_header
from portico.model.errors import InvalidRequest, PorticoError

HEADER = "Idempotency-Key"
REPLAYED = (b"idempotency-replayed", b"true")
_MAX_LENGTH = 255
_QUOTED = re.compile(r'"((?:[!#-\[\]-~]|\\["\\])+)"')
_BARE = re.compile(r"[!#-+\--:<-\[\]-~]+")
"""Visible ASCII, without what would make it a list, a parameter or a string of structured fields."""

_COMPARED = (
    *("content-encoding", "content-length", "content-digest", "content-md5", "digest", "repr-digest"),
    *("if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "prefer", "want-repr-digest"),
    *("upload-checksum", "upload-concat", "upload-length", "upload-metadata", "x-modified"),
)
"""Headers that are part of a request's identity. The body is not: it is streamed."""

_FINAL = frozenset({404, 409, 412, 413})
"""Errors that are the outcome of the request itself. All others may end differently when it is sent again."""


class Answer(msgspec.Struct, array_like=True):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def answered_once(request: Request, change: Callable[[], Awaitable[Response]]) -> Response:
    """The answer of `change`, which is called once for all requests with the same key and the same content."""
    key = key_of(single_header(request, HEADER) or "")
    actor = await actor_of(request)
    idempotency = services_of(request).gateway.idempotency
    found = await idempotency.begin(actor, key, fingerprint(request.scope))
    if isinstance(found, bytes):
        return _replayed(request, found)
    context_of(request).attempt = found
    kept: Answer | None = None
    try:
        try:
            response = await change()
        except PorticoError as error:
            if status_of(error) not in _FINAL:
                raise
            response = problem_response(request, error)
        if response.status_code < 300 or response.status_code in _FINAL:
            kept = Answer(response.status_code, list(response.raw_headers), bytes(response.body))
        return response
    finally:
        if kept is None:
            await found.give_up()
        else:
            await found.answer(msgspec.msgpack.encode(kept))


def _replayed(request: Request, stored: bytes) -> Response:
    answer = msgspec.msgpack.decode(stored, type=Answer)
    # The body is not wanted; it is read like that of a refused request, so that the client gets the answer.
    request.scope["state"]["body_unwanted"] = True
    if answer.status >= 400:
        context_of(request).code = msgspec.json.decode(answer.body, type=Problem).code
    response = Response(answer.body, answer.status)
    response.raw_headers = [*answer.headers, REPLAYED]
    return response


def key_of(header: str) -> str:
    """The key in a header: a string of structured fields, or without the quotes."""
    if quoted := _QUOTED.fullmatch(header):
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    else:
        key = header if _BARE.fullmatch(header) else ""
    if not 0 < len(key) <= _MAX_LENGTH:
        raise InvalidRequest(
            f"The header {HEADER} is malformed; send 1 to {_MAX_LENGTH} visible ASCII characters in quotes."
        )
    return key


def fingerprint(scope: Scope) -> bytes:
    """A digest of all that makes up the request, apart from its body."""
    lines = [scope["method"].encode(), scope["raw_path"], b"&".join(sorted(scope["query_string"].split(b"&")))]
    for name, value in scope["headers"]:
        if name == b"content-type":
            # The boundary of a form is a new one in each request.
            parameters = [each.strip() for each in value.lower().split(b";")]
            value = b";".join(each for each in parameters if not each.startswith(b"boundary="))
        elif name.decode("latin-1") not in _COMPARED:
            continue
        lines.append(name + b":" + value)
    lines[3:] = sorted(lines[3:])
    return sha256(b"\n".join(lines)).digest()
