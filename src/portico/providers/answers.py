"""What makes sense in a service's answer, whichever service it is, and what to say of an answer that does not."""

import re
from collections.abc import Sequence

from portico.errors import ProviderFailed

LARGEST_FILE = 2**63 - 1
_LONGEST_ETAG = 256
_DIGITS = re.compile(r"[0-9]{1,19}")


def nonsense(what: str) -> ProviderFailed:
    return ProviderFailed(
        "The storage service sent an answer that makes no sense; tell the administrator.",
        cause=f"the service sent {what}",
    )


def check_count(found: int, asked: int) -> None:
    """`ProviderFailed` if a page holds more than was asked for."""
    if found > asked:
        raise nonsense(f"{found} entries in answer to a request for {asked}")


def check_sizes(sizes: Sequence[int]) -> None:
    """`ProviderFailed` if one of them is a size that no file has."""
    if sizes and not 0 <= min(sizes) <= max(sizes) <= LARGEST_FILE:
        raise nonsense("a listing with a size that no file has")


def size_of(text: str | None) -> int:
    """A file's size as a header has it."""
    if text is None or not _DIGITS.fullmatch(text) or int(text) > LARGEST_FILE:
        raise nonsense("a size that no file has")
    return int(text)


def etag_of(text: str | None) -> str | None:
    """A file's version without its quotes, or None where the service names none."""
    if not text:
        return None
    if not (text.isascii() and text.isprintable() and len(text) <= _LONGEST_ETAG):
        raise nonsense("an ETag that no header can hold")
    return text.strip('"') or None
