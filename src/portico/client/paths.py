"""Paths on the gateway, such as `/reports/2026.csv`."""

import re
from urllib.parse import quote, unquote, urlencode

from portico.client.errors import InvalidPath

FILESYSTEM = "/backend/1.0.0/filesystem"

_SCHEMES = ("http://", "https://", "portico://")
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f/\\\\\ud800-\udfff]")


def check_name(name: str) -> str:
    """The name; raises `InvalidPath` if no entry can have it."""
    if name in ("", ".", "..") or _FORBIDDEN.search(name):
        raise InvalidPath(
            f"{name!r} is not a valid name: it must not be empty, '.' or '..', or contain slashes, backslashes or control characters."
        )
    return name


def clean(path: str) -> str:
    """The path with a leading slash and no trailing one; raises `InvalidPath` if it is not valid."""
    if path in ("", "/"):
        return "/"
    if path.startswith(_SCHEMES):
        raise InvalidPath(f"{path!r} is a URL; use a path from your root, such as '/reports/2026.csv'.")
    inner = path.removeprefix("/").removesuffix("/")
    return "/" + "/".join(map(check_name, inner.split("/")))


def split(path: str) -> tuple[str, str]:
    """The folder and the name of a clean path."""
    folder, _, name = path.rpartition("/")
    return folder or "/", name


def join(folder: str, name: str) -> str:
    return f"{folder.removesuffix('/')}/{name}"


def target(path: str, **query: str | int | None) -> str:
    """The request target for a clean path."""
    given = {name: value for name, value in query.items() if value is not None}
    return FILESYSTEM + quote(path) + ("?" + urlencode(given) if given else "")


def path_of(address: str) -> str | None:
    """The path in a URL of the gateway; None if it has none."""
    _, found, path = address.partition(FILESYSTEM)
    try:
        return clean(unquote(path, errors="strict")) if found else None
    except (UnicodeDecodeError, InvalidPath):
        return None
