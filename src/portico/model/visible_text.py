"""Text with what could deceive its reader escaped: direction overrides, characters without a shape, control characters.

The page has the same rule in `web/js/visible-text.js`.
"""

import re
import unicodedata

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_JOINERS = "\u200c\u200d"
_VARIATIONS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_SHAPELESS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Unicode's default ignorable code points, and the format characters that most fonts show as nothing."""
_VIRAMAS = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
"""Signs of Indic scripts; a joiner after one is part of the letter, also at the end of a word."""
_SUSPECT = re.compile(
    # The flags of England, Scotland and Wales are matched as a whole.
    f"(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{{1,6}}\U000e007f)|[{_CONTROLS}{_SHAPELESS}]"
)
_JOINER = re.compile(f"[{_JOINERS}]")
_VARIATION = re.compile(f"[{_VARIATIONS}]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with deceptive characters as escapes of JSON, such as `\u202e`; with `lines`, line ends stay.

    No name on a gateway has a backslash, so an escape cannot be mistaken for a part of the name.
    """

    def shown(found: re.Match[str]) -> str:
        if _is_honest(found) or (lines and found[0] == "\n"):
            return found[0]
        units = found[0].encode("utf-16-be")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    return _SUSPECT.sub(shown, text)


def visible_json(data: bytes) -> bytes:
    """A JSON document with deceptive characters escaped; it means the same to a program."""
    return visible(data.decode()).encode()


def is_deceptive(name: str) -> bool:
    return not all(map(_is_honest, _SUSPECT.finditer(name)))


def _is_honest(found: re.Match[str]) -> bool:
    """Whether the character has a part in how its neighbours are written."""
    if found[1]:
        return True
    before = found.string[found.start() - 1 : found.start()] if found.start() else ""
    after = found.string[found.end() : found.end() + 1]
    if _JOINER.match(found[0]):
        return before != "" and (before in _VIRAMAS or (_joins(before) and _joins(after)))
    if _VARIATION.match(found[0]):
        return _varies(before) or after == "\N{COMBINING ENCLOSING KEYCAP}"
    return False


def _joins(character: str) -> bool:
    """Whether it is a letter, a mark, or an emoji or another symbol."""
    if not character:
        return False
    kind = unicodedata.category(character)[0]
    return kind in "LM" or (kind == "S" and not character.isascii())


def _varies(character: str) -> bool:
    """Whether Unicode has variants of such a character: of emoji, and of scripts without capital letters."""
    if not character or character.isascii():
        return False
    kind = unicodedata.category(character)
    return kind == "Lo" or kind[0] in "SP"
