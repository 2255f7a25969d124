"""What a Web User may do."""

from collections.abc import Iterable
from enum import StrEnum


class Right(StrEnum):
    LIST = "list"
    DOWNLOAD = "download"
    UPLOAD = "upload"
    OVERWRITE = "overwrite"
    """Replace, rename and delete."""
    SHARE = "share"
    """Make links by which people without an account reach a part of one's files."""


DEFAULT_RIGHTS = frozenset(Right) - {Right.SHARE}
"""What one can do with files: a new user has all of it. The right to share is given by the administrator."""

_WORDS = frozenset(map(str, Right))


def parse_rights(text: str) -> frozenset[Right]:
    """Read `list,download` (commas or spaces); `ValueError` names the first word that is no right."""
    words = text.replace(",", " ").split()
    for word in words:
        if word not in _WORDS:
            raise ValueError(f"{word!r} is not a right; use some of {', '.join(Right)}")
    return frozenset(Right(word) for word in words)


def format_rights(rights: Iterable[Right]) -> str:
    """The rights in their fixed order, separated by spaces."""
    held = frozenset(rights)
    return " ".join(right for right in Right if right in held)
