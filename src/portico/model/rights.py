"""What a Web User may do."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final


class Right(StrEnum):
    """In the order in which they are shown."""

    LIST = "list"
    DOWNLOAD = "download"
    UPLOAD = "upload"
    OVERWRITE = "overwrite"
    """The word for `REPLACE` and `DELETE` together, where rights are read and shown. It is never held itself."""
    REPLACE = "replace"
    """Replace a file."""
    DELETE = "delete"
    SHARE = "share"
    """Make links by which people without an account reach a part of one's files."""


OVERWRITE: Final = frozenset({Right.REPLACE, Right.DELETE})
"""Together with `UPLOAD`, these two also allow renaming and moving."""
ALL_RIGHTS: Final = frozenset(Right) - {Right.OVERWRITE}
DEFAULT_RIGHTS: Final = ALL_RIGHTS - {Right.SHARE}
"""What one can do with files: a new user has all of it. The right to share is given by the administrator."""

_WORDS = frozenset(map(str, Right))


def held(words: Iterable[Right]) -> frozenset[Right]:
    """The rights that these words give."""
    rights = frozenset(words)
    return rights - {Right.OVERWRITE} | OVERWRITE if Right.OVERWRITE in rights else rights


def shown(rights: Iterable[Right]) -> list[Right]:
    """The words for these rights, in their fixed order."""
    words = set(rights)
    if words >= OVERWRITE:
        words = words - OVERWRITE | {Right.OVERWRITE}
    return [right for right in Right if right in words]


def missing_word(needed: Right, rights: Collection[Right]) -> Right:
    """The word for a missing right: `overwrite` if both `replace` and `delete` are missing."""
    return Right.OVERWRITE if needed in OVERWRITE and OVERWRITE.isdisjoint(rights) else needed


def parse_rights(text: str) -> frozenset[Right]:
    """Read `list,download` (commas or spaces); `ValueError` names the first word that is no right."""
    words = text.replace(",", " ").split()
    for word in words:
        if word not in _WORDS:
            raise ValueError(f"{word!r} is not a right; use some of {', '.join(Right)}")
    return held(map(Right, words))


def format_rights(rights: Iterable[Right]) -> str:
    """The words for these rights, separated by spaces."""
    return " ".join(shown(rights))
