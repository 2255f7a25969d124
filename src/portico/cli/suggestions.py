"""Usage errors, and suggestions for mistyped commands and options."""

from collections.abc import Iterable

_SYNONYMS = (
    ("put", "upload"),
    ("get", "download"),
    ("rm", "delete", "remove", "end"),
    ("mv", "move", "rename"),
    ("cp", "copy"),
    ("ls", "list", "dir"),
    ("find", "search"),
    ("add", "create", "new"),
    ("set", "change", "update"),
)
"""Words with one meaning. A word that has one is not taken for a misspelling of another: `rename` is not `enable`."""
_MIN_SIMILARITY = 0.65
_SHORTEST_PREFIX = 2


def no_such(what: str, word: str, known: Iterable[str]) -> str:
    """There is no such option or command, and which one may be meant."""
    close = suggestion(word, list(known))
    return f"there is no {what} {word!r}" + (f", did you mean {close!r}?" if close else "")


def suggestion(word: str, known: list[str]) -> str | None:
    """The known word that is most likely meant."""
    from difflib import get_close_matches

    for meaning in _SYNONYMS:
        if word in meaning:
            return next((each for each in meaning if each in known), None)
    letters = word.lstrip("-")
    if len(letters) < _SHORTEST_PREFIX:
        return None
    candidates = {each.lstrip("-"): each for each in known if len(each.lstrip("-")) >= _SHORTEST_PREFIX}
    longer = sorted((each for each in candidates if each.startswith(letters)), key=len)
    if longer and all(each.startswith(longer[0]) for each in longer):
        return candidates[longer[0]]
    close = get_close_matches(letters, candidates, n=1, cutoff=_MIN_SIMILARITY)
    return candidates[close[0]] if close else None


def usage_sentence(message: str, prog: str) -> str:
    message = f"{message[:1].upper()}{message[1:].rstrip('.')}"
    return f"{message} See '{prog} --help'." if message.endswith("?") else f"{message}; see '{prog} --help'."
