"""Which names an Azure file share can hold.

Names keep their case but are compared without it: `.PORTICO~staging` is the gateway's staging folder, which users must
not reach.
"""

import re

from portico.model.errors import InvalidPath
from portico.model.paths import RESERVED_PREFIX, Path, name_flaw

_MAX_NAME = 255
_MAX_PATH = 2048
MAX_DEPTH = 250
_FORBIDDEN = re.compile('["\\\\:|<>*?\ufffe\uffff]')


def check(path: Path) -> None:
    """`InvalidPath` if the service cannot hold something at `path`."""
    if flaw := _flaw(path):
        raise InvalidPath(flaw)


def possible(path: Path) -> bool:
    return _flaw(path) is None


def shown(name: str) -> bool:
    return name_flaw(name) is None and not _is_reserved(name)


def folded(name: str) -> str:
    """Equal for two names that are the same to the service."""
    return "".join(upper if len(upper := letter.upper()) == 1 else letter for letter in name)


def holds(folder: Path, path: Path) -> bool:
    """As `Path.holds`, but compared as the service does."""
    above = path.segments[: len(folder.segments)]
    return [folded(name) for name in above] == [folded(name) for name in folder.segments]


def _flaw(path: Path) -> str | None:
    for name in path.segments:
        if _FORBIDDEN.search(name):
            return f"This storage doesn't allow the name '{name}'; leave out the characters \" \\ : | < > * ?"
        if len(name.encode("utf-16-le", "surrogatepass")) > 2 * _MAX_NAME:
            return f"Names in this storage can have at most {_MAX_NAME} characters. Choose a shorter one."
        if _is_reserved(name) and not name.startswith(RESERVED_PREFIX):
            return f"Names that begin with '{RESERVED_PREFIX}' are reserved for the gateway. Choose another name."
    if len(path.segments) > MAX_DEPTH or len(str(path)) > _MAX_PATH:
        return (
            f"Paths in this storage can have at most {_MAX_PATH} characters and {MAX_DEPTH} folders. "
            "Choose a shorter path."
        )
    return None


def _is_reserved(name: str) -> bool:
    return name.upper().startswith(RESERVED_PREFIX.upper())
