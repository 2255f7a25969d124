"""Which names an Azure file share can hold.

Names keep their case and are compared without it: `.PORTICO~staging` is our own staging folder, which nobody may reach.
"""

import re

from portico.errors import InvalidPath
from portico.paths import RESERVED_PREFIX, Path, name_flaw

_LONGEST_NAME = 255
_LONGEST_PATH = 2048
DEEPEST = 250
_FORBIDDEN = re.compile('["\\\\:|<>*?\ufffe\uffff]')


def check(path: Path) -> None:
    """`InvalidPath` if the service cannot hold something at `path`."""
    if flaw := _flaw(path):
        raise InvalidPath(flaw)


def possible(path: Path) -> bool:
    """Whether there can be anything at `path`."""
    return _flaw(path) is None


def shown(name: str) -> bool:
    """Whether a listing may show the name."""
    return name_flaw(name) is None and not _is_ours(name)


def folded(name: str) -> str:
    """Equal for two names that are the same name to the service."""
    return "".join(upper if len(upper := letter.upper()) == 1 else letter for letter in name)


def holds(folder: Path, path: Path) -> bool:
    """As `Path.holds`, to the service."""
    above = path.segments[: len(folder.segments)]
    return [folded(name) for name in above] == [folded(name) for name in folder.segments]


def _flaw(path: Path) -> str | None:
    for name in path.segments:
        if _FORBIDDEN.search(name):
            return (
                f"""This storage cannot hold the name '{name}': leave out the characters " \\ : | < > * ?"""
            )
        if len(name.encode("utf-16-le", "surrogatepass")) > 2 * _LONGEST_NAME:
            return f"A name may have {_LONGEST_NAME} characters in this storage; choose a shorter one."
        if _is_ours(name) and not name.startswith(RESERVED_PREFIX):
            return f"Names that begin with '{RESERVED_PREFIX}' belong to the gateway; choose another name."
    if len(path.segments) > DEEPEST or len(str(path)) > _LONGEST_PATH:
        return f"A path may have {_LONGEST_PATH} characters and {DEEPEST} folders in this storage."
    return None


def _is_ours(name: str) -> bool:
    return name.upper().startswith(RESERVED_PREFIX.upper())
