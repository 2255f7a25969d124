"""Reading a request's path and query strictly: what is malformed is refused, never guessed."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request

from portico.errors import InvalidRequest
from portico.paths import Path

FILESYSTEM = "/backend/1.0.0/filesystem"
DEFAULT_SIZE = 250

_MOST_PARAMETERS = 16
_KNOWN = frozenset({"action", "cursor", "onConflict", "recursive", "size", "target", "ticket"})
_DIGITS = frozenset("0123456789")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

Choice = TypeVar("Choice", bound=StrEnum)


def path_of(request: Request) -> Path:
    """The path below the endpoint, from the raw request line: servers decode more than we want."""
    raw: bytes = request.scope["raw_path"]
    return Path.from_request(raw[len(FILESYSTEM) :].removeprefix(b"/"))


def address_of(path: Path) -> str:
    """The address of what is at `path`, escaped as a browser's `encodeURIComponent` escapes each name."""
    return FILESYSTEM + quote(str(path), safe="/!'()*")


def names_parameter(request: Request, name: bytes) -> bool:
    """Whether the query has this parameter, for those who do not read the query."""
    raw: bytes = request.scope["query_string"]
    if b"%" not in raw and name not in raw:
        return False
    return any(unquote_to_bytes(pair.partition(b"=")[0]) == name for pair in raw.split(b"&"))


def _pairs(text: str) -> list[tuple[str, str]]:
    parameters = text.split("&")
    if len(parameters) > _MOST_PARAMETERS:
        raise ValueError
    if "%" in text or "+" in text:
        return [(_unquoted(name), _unquoted(value)) for name, value in _split(parameters)]
    return list(_split(parameters))


def _split(parameters: list[str]) -> Iterator[tuple[str, str]]:
    for parameter in parameters:
        if parameter:
            name, _, value = parameter.partition("=")
            yield name, value


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode()


def _check_spelling(name: str) -> None:
    """A stranger is passed over, but not a slip: `onconflict=fail` must not overwrite a file."""
    known = {parameter.lower(): parameter for parameter in _KNOWN}
    if near := get_close_matches(name.lower(), known, n=1, cutoff=0.75):
        raise InvalidRequest(f"There is no parameter '{name[:40]}'; did you mean '{known[near[0]]}'?")


class Query:
    """A query whose every parameter stands once."""

    def __init__(self, request: Request) -> None:
        self._values: dict[str, str] = {}
        raw: bytes = request.scope["query_string"]
        if not raw:
            return
        try:
            if _BAD_ESCAPE.search(raw):
                raise ValueError
            pairs = _pairs(raw.decode("ascii"))
        except ValueError:
            raise InvalidRequest("The query is malformed; percent-encode its values as UTF-8.") from None
        for name, value in pairs:
            if name not in _KNOWN:
                _check_spelling(name)
            if name in self._values:
                raise InvalidRequest(f"The parameter '{name[:40]}' stands twice; send it once.")
            self._values[name] = value

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def choice(self, name: str, choices: type[Choice]) -> Choice | None:
        value = self._values.get(name)
        if value is None:
            return None
        try:
            return choices(value)
        except ValueError:
            raise InvalidRequest(f"The parameter '{name}' is one of {', '.join(choices)}.") from None

    def flag(self, name: str) -> bool:
        value = self._values.get(name, "false")
        if value not in ("true", "false"):
            raise InvalidRequest(f"The parameter '{name}' is true or false.")
        return value == "true"

    def page_size(self) -> int:
        value = self._values.get("size")
        if value is None:
            return DEFAULT_SIZE
        # isdigit() would let the digits of other scripts pass, and int() underscores and signs.
        if not value or not _DIGITS.issuperset(value) or not value.strip("0"):
            raise InvalidRequest("The parameter 'size' is a whole number of at least 1.")
        return int(value[-18:]) if len(value) <= 18 else 10**18

    def cursor(self) -> str | None:
        return self._values.get("cursor")

    def target(self) -> Path:
        value = self._values.get("target")
        if value is None:
            raise InvalidRequest(
                "The parameter 'target' is missing: the path from the root to move or copy to."
            )
        return Path.parse(value)
