"""What users and connections may be called."""

import unicodedata

from portico.errors import InvalidRequest

_LONGEST = 64
_LONGEST_KEY = 256


def check_name(name: str, noun: str) -> str:
    """`name` as it is stored; `InvalidRequest` if no `noun` may be called so."""
    composed = unicodedata.normalize("NFC", name[: 4 * _LONGEST + 1])
    if not _is_name(composed):
        raise InvalidRequest(
            f"A {noun} name has 1 to {_LONGEST} letters, digits or characters of '._-@', "
            "and does not begin with a dot; choose another name."
        )
    return composed


def name_key(name: str) -> str:
    """The form under which names are the same whatever their case; empty for what cannot be a name."""
    if len(name) > 4 * _LONGEST:
        return ""
    composed = unicodedata.normalize("NFC", name)
    return _fold(composed) if _is_name(composed) else ""


def _is_name(name: str) -> bool:
    return (
        0 < len(name) <= _LONGEST
        and not name.startswith(".")
        and all(char in "._-@" or unicodedata.category(char)[0] == "L" or char.isdecimal() for char in name)
        and len(_fold(name)) <= _LONGEST_KEY
    )


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
