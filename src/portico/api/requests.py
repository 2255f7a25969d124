"""Reading a request strictly: path, query, headers and credentials. What is malformed is refused, never guessed."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import NamedTuple, TypeVar
from urllib.parse import quote, unquote, unquote_to_bytes

from starlette.requests import Request
from starlette.types import Scope

from portico.api.services import Services
from portico.model import timestamps
from portico.model.errors import InvalidRequest, NotSignedIn, Unavailable
from portico.model.paths import Path
from portico.operations.actors.actor import Actor
from portico.operations.actors.request_context import RequestContext
from portico.operations.operations import Operations
from portico.operations.readiness import DATABASE_FAULT, NotReady, database_fault

FILESYSTEM = "/backend/1.0.0/filesystem"
GUEST_PAGE = "/s/"
"""What follows is the secret of a share link."""
DEFAULT_SIZE = 250
MODIFIED = "X-Modified"

_MAX_PARAMETERS = 16
_KNOWN = frozenset(
    {
        *("action", "cursor", "fields", "onConflict", "page", "permanent", "recursive"),
        *("size", "target", "ticket"),
        *("case", "maxSize", "minSize", "modifiedAfter", "modifiedBefore", "name", "type"),
    }
)
_DIGITS = frozenset("0123456789")
_LINK = re.compile(r"(^|[/\\])s[/\\]+[^/\\]", re.IGNORECASE)
"""An address like that of a share link, also one that was changed by hand or by a proxy: it may hold the secret."""
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

Choice = TypeVar("Choice", bound=StrEnum)


class OpeningServices:
    """The services of a gateway that may still be waiting for its database."""

    def __init__(self) -> None:
        self._services: Services | None = None
        self._fault = DATABASE_FAULT

    def wait_for_database(self, error: Unavailable) -> None:
        self._fault = database_fault(error)

    def open(self, services: Services) -> None:
        self._services = services

    def get(self) -> Services:
        """`NotReady` until they are open."""
        if self._services is None:
            raise NotReady((self._fault,))
        return self._services


def services_of(request: Request) -> Services:
    services: OpeningServices = request.scope["state"]["services"]
    return services.get()


def context_of(request: Request) -> RequestContext:
    context: RequestContext = request.scope["state"]["context"]
    return context


def may_see_faults(request: Request) -> bool:
    """Whether the client is a monitor of this gateway, as `Middleware` decided."""
    return bool(request.scope["state"].get("monitor"))


async def actor_of(request: Request) -> Actor:
    """The user behind the request's bearer token or API key, who is asked for once."""
    state = request.scope["state"]
    if "actor" not in state:
        state["actor"] = await _authenticated(request)
    actor: Actor = state["actor"]
    return actor


async def _authenticated(request: Request) -> Actor:
    """A key may be a Basic password, too."""
    header = single_header(request, "Authorization")
    scheme, _, token = (header or "").partition(" ")
    authentication = services_of(request).gateway.authentication
    if scheme.lower() == "basic":
        username, key = basic_credentials(header or "")
        if not key.startswith(b"pk_"):
            raise NotSignedIn("HTTP Basic takes an API key only. To use a password, sign in at /backend/login.")
        return await authentication.with_key(
            context_of(request), key.decode("latin-1"), username.decode("utf-8", "replace")
        )
    if scheme.lower() != "bearer" or not token:
        raise NotSignedIn(
            "You're not signed in. Send an access token or API key as 'Authorization: Bearer …'; "
            "get a token at /backend/login."
        )
    if _has_parameter(request, b"access_token"):
        raise InvalidRequest("The access token is in both the query and the header; send it in the header only.")
    return await authentication.with_token(context_of(request), token.strip())


def basic_credentials(header: str) -> tuple[bytes, bytes]:
    """User name and password in a Basic `Authorization` header; empty if it is not one."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return b"", b""
    try:
        username, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return b"", b""
    return (username, password) if colon else (b"", b"")


async def operations_of(request: Request, ticket: str | None = None) -> Operations:
    """The operations of the user behind the bearer token, or behind a ticket for the request's path."""
    gateway = services_of(request).gateway
    if ticket is None:
        return gateway.operations(await actor_of(request))
    return gateway.operations(await gateway.authentication.with_ticket(context_of(request), ticket, path_of(request)))


def single_header(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise InvalidRequest(f"The header {name} appears twice; send it once.")
    return values[0] if values else None


def content_length(request: Request) -> int | None:
    return parsed_length(request.headers.get("Content-Length", "").encode("latin-1"))


def parsed_length(text: bytes) -> int | None:
    """The value of Content-Length; None if no body could have that length."""
    return int(text) if text.isdigit() and len(text) <= 18 else None


def modified_of(text: str | None, name: str = f"The header {MODIFIED}") -> datetime | None:
    """A modification time as a client writes it, in the header or elsewhere."""
    try:
        return timestamps.parse(text.strip()) if text is not None else None
    except ValueError:
        raise InvalidRequest(
            f"{name} is not a valid time since 1970; use 2026-11-14T09:30:00Z, or seconds since 1970."
        ) from None


WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
"""How long a request is waited for that may be answered before it is done."""


class Returned(NamedTuple):
    entries: bool = False
    receipts: bool = False


def preferred_return(request: Request) -> Returned:
    """What `Prefer` (RFC 7240) asks for; unknown preferences are ignored."""
    for (name, value), *parameters in _preferences(request):
        if name == "return":  # the first one counts
            entries = value == "representation"
            return Returned(entries, entries and ("receipt", "none") not in parameters)
    return Returned()


def preferred_wait(request: Request) -> float | None:
    """Seconds after which the client wants to be answered, even if its request is not done; None if it waits."""
    asynchronous, wait = False, None
    for (name, value), *_ in _preferences(request):
        if name == "respond-async":
            asynchronous = True
        elif name == "wait" and wait is None and value.isascii() and value.isdecimal():
            wait = min(float(value[:9]), LONGEST_WAIT_SECONDS)
    if not asynchronous:
        return None
    return WAIT_SECONDS if wait is None else wait


def _preferences(request: Request) -> Iterator[list[tuple[str, str]]]:
    """Each preference with its parameters."""
    for preference in ",".join(request.headers.getlist("Prefer")).split(","):
        yield [_pair(part) for part in preference.split(";")]


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def instance_of(scope: Scope) -> str:
    """The path of the request as it was sent; never the query, which may hold a ticket, nor the address of a link."""
    raw: bytes = scope["raw_path"]
    if not raw.startswith(FILESYSTEM.encode()) and _LINK.search(unquote(scope["path"])):
        return f"{GUEST_PAGE}…"
    return raw.partition(b"?")[0].decode("ascii", "replace")


def path_of(request: Request) -> Path:
    """The path below the endpoint, from the raw request line: servers decode too much of it."""
    raw: bytes = request.scope["raw_path"]
    return Path.from_request(raw[len(FILESYSTEM) :].removeprefix(b"/"))


def last_segment(request: Request) -> str:
    """The id at the end of an address, as it was sent."""
    path: str = request.scope["path"]
    return path.rpartition("/")[2]


def address_of(path: Path) -> str:
    """The address of `path`, each name escaped as `encodeURIComponent` does it in a browser."""
    return FILESYSTEM + quote(str(path), safe="/!'()*")


def _has_parameter(request: Request, name: bytes) -> bool:
    raw: bytes = request.scope["query_string"]
    if b"%" not in raw and name not in raw:
        return False
    return any(unquote_to_bytes(pair.partition(b"=")[0]) == name for pair in raw.split(b"&"))


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode() if "%" in text or "+" in text else text


class Query:
    """A query in which each parameter is given at most once."""

    def __init__(self, request: Request) -> None:
        self._values: dict[str, str] = {}
        raw: bytes = request.scope["query_string"]
        if not raw:
            return
        try:
            parameters = raw.decode("ascii").split("&")
            if _BAD_ESCAPE.search(raw) or len(parameters) > _MAX_PARAMETERS:
                raise ValueError
            parts = [each.partition("=") for each in parameters if each]
            pairs = [(_unquoted(name), _unquoted(value)) for name, _, value in parts]
        except ValueError:
            raise InvalidRequest("The query is malformed; percent-encode its values as UTF-8.") from None
        for name, value in pairs:
            if name not in _KNOWN:
                # It is ignored, unless it is misspelt: `onconflict=fail` must not overwrite a file.
                known = {parameter.lower(): parameter for parameter in _KNOWN}
                if near := get_close_matches(name.lower(), known, n=1, cutoff=0.75):
                    raise InvalidRequest(f"The parameter '{name[:40]}' doesn't exist; did you mean '{known[near[0]]}'?")
            if name in self._values:
                raise InvalidRequest(f"The parameter '{name[:40]}' appears twice; send it once.")
            self._values[name] = value

    @property
    def is_given(self) -> bool:
        return bool(self._values)

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def choice(self, name: str, choices: type[Choice]) -> Choice | None:
        value = self._values.get(name)
        if value is None:
            return None
        try:
            return choices(value)
        except ValueError:
            raise InvalidRequest(f"The parameter '{name}' must be one of {', '.join(choices)}.") from None

    def flag(self, name: str) -> bool:
        value = self._values.get(name, "false")
        if value not in ("true", "false"):
            raise InvalidRequest(f"The parameter '{name}' must be true or false.")
        return value == "true"

    def page_size(self, default: int = DEFAULT_SIZE) -> int:
        size = self.number("size", least=1)
        return default if size is None else size

    def number(self, name: str, *, least: int = 0) -> int | None:
        """A whole number; one that is absurdly large is clamped."""
        value = self._values.get(name)
        if value is None:
            return None
        # isdigit() accepts the digits of other scripts, and int() underscores and signs.
        if value and _DIGITS.issuperset(value):
            digits = value.lstrip("0")[:19]
            number = min(int(digits or "0"), 10**18)
            if number >= least:
                return number
        raise InvalidRequest(f"The parameter '{name}' must be a whole number of at least {least}.")

    def wants_digest(self) -> bool:
        """Whether `fields` asks for digests, the only thing that it can ask for."""
        value = self._values.get("fields")
        if value not in (None, "digest"):
            raise InvalidRequest("The parameter 'fields' must be digest.")
        return value is not None

    def target(self) -> Path:
        value = self._values.get("target")
        if value is None:
            raise InvalidRequest(
                "The parameter 'target' is missing; set it to the path to move or copy to, starting at the root."
            )
        return Path.parse(value)
