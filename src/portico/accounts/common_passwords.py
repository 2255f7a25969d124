"""Passwords that a guesser tries first: a list of words, and what people usually put around them.

The list was written for Portico, after what published statistics of leaked passwords have in common: words, names, teams,
places and rows of keys, in several languages. It holds words rather than passwords: digits and marks around a word, and
letters that are written as digits, change nothing.
"""

from functools import cache
from importlib.resources import files

from portico.accounts.names import name_key
from portico.errors import WeakPassword

_LOOKALIKES = str.maketrans(
    {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i"}
)
_LONGEST = 32
"""Characters. A longer password is not one of the usual ones."""
_ROWS = ("01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm")


def check_uncommon(password: str, username: str) -> None:
    """`WeakPassword` if a guesser would try this password early."""
    if is_common(password, username):
        raise WeakPassword(
            "This password is too easy to guess; choose another one, such as four unrelated words."
        )


def is_common(password: str, username: str = "") -> bool:
    text = password.casefold()
    if len(text) > _LONGEST:
        return False
    if _repeats(text) or any(text in row or text in row[::-1] for row in _ROWS):
        return True
    known = _words() | {name_key(username) or "portico"}
    return any(core in known or _halves(core) & known for core in _cores(text))


def _cores(text: str) -> set[str]:
    """The word in the middle, as it is and with its letters."""
    found = {
        "".join(char for char in text if char.isalpha()),
        _stripped(text),
        _stripped(text.translate(_LOOKALIKES)),
    }
    plain = text.translate(_LOOKALIKES)
    found.add(_stripped(_stripped(text).translate(_LOOKALIKES)))
    found.add(plain)
    # Only digits and marks are left: 12345678 and the like have no more variety than a word.
    return {core for core in found if core} | (
        {"password"} if not any(map(str.isalpha, text)) and len(text) < 12 else set()
    )


def _stripped(text: str) -> str:
    start = next((index for index, char in enumerate(text) if char.isalpha()), len(text))
    end = next((index for index in range(len(text), 0, -1) if text[index - 1].isalpha()), 0)
    return text[start:end]


def _repeats(text: str) -> bool:
    """Whether it is one short text again and again."""
    return any(
        text == (text[:size] * len(text))[: len(text)] for size in range(1, min(4, len(text) // 2) + 1)
    )


def _halves(core: str) -> set[str]:
    half = core[: len(core) // 2]
    return {half} if half and core == half + half else set()


@cache
def _words() -> frozenset[str]:
    return frozenset(
        (files("portico.accounts") / "common_passwords.txt").read_text("utf-8").casefold().split()
    )
