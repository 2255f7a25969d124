"""Names of users and connections."""

import unicodedata

from portico.model.errors import InvalidRequest

_MAX_LENGTH = 64
_MAX_KEY_LENGTH = 256


def check_name(name: str, noun: str) -> str:
    """The name in its stored form; `InvalidRequest` if it is not allowed for this `noun`."""
    composed = unicodedata.normalize("NFC", name[: 4 * _MAX_LENGTH + 1])
    if not _is_name(composed):
        raise InvalidRequest(
            f"A {noun} name must have 1 to {_MAX_LENGTH} letters, digits or characters of '._-@', "
            "and must not start with a dot; choose another name."
        )
    return composed


def name_key(name: str) -> str:
    """The form in which names are compared, without case; empty if it cannot be a name."""
    if len(name) > 4 * _MAX_LENGTH:
        return ""
    composed = unicodedata.normalize("NFC", name)
    return _fold(composed) if _is_name(composed) else ""


def _is_name(name: str) -> bool:
    return (
        0 < len(name) <= _MAX_LENGTH
        and not name.startswith(".")
        and all(char in "._-@" or unicodedata.category(char)[0] == "L" or char.isdecimal() for char in name)
        and len(_fold(name)) <= _MAX_KEY_LENGTH
    )


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())
