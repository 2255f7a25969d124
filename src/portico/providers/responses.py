"""Validation of responses, whichever service sent them."""

import re
from collections.abc import Sequence

from portico.errors import ProviderFailed

MAX_FILE_SIZE = 2**63 - 1
_MAX_ETAG = 256
_DIGITS = re.compile(r"[0-9]{1,19}")


def malformed_response(what: str) -> ProviderFailed:
    """The error for a response that cannot be right; `what` ends the sentence “the service sent …”."""
    return ProviderFailed(
        "The storage service sent an invalid response; tell the administrator.",
        cause=f"the service sent {what}",
    )


def check_count(found: int, asked: int) -> None:
    """`ProviderFailed` if a page has more entries than requested."""
    if found > asked:
        raise malformed_response(f"{found} entries in response to a request for {asked}")


def check_sizes(sizes: Sequence[int]) -> None:
    """`ProviderFailed` if one of the sizes is impossible."""
    if sizes and not 0 <= min(sizes) <= max(sizes) <= MAX_FILE_SIZE:
        raise malformed_response("a listing with an impossible size")


def size_of(text: str | None) -> int:
    """The size of a file from a header."""
    if text is None or not _DIGITS.fullmatch(text) or int(text) > MAX_FILE_SIZE:
        raise malformed_response("an impossible size")
    return int(text)


def etag_of(text: str | None) -> str | None:
    """The etag without quotes, or None if there is none."""
    if not text:
        return None
    if not (text.isascii() and text.isprintable() and len(text) <= _MAX_ETAG):
        raise malformed_response("an ETag that no header can contain")
    return text.strip('"') or None
