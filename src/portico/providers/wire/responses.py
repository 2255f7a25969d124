"""Validation of responses, whichever service sent them."""

import re
from collections.abc import Sequence

from portico.model.errors import ProviderFailed

MAX_EMPTY_PAGES = 100
"""How many pages in a row may be empty, each with a new token: services send such pages at times."""
MAX_REPEATED_PAGES = 3
"""How many pages in a row may show only known names."""


class Progress:
    """The progress of one traversal; `ProviderFailed` if a page makes none.

    Most services list in order: then a page makes progress if it goes beyond all previous ones. Only names that arrive
    out of order are remembered, so memory is used only for services that do not list in order.
    """

    def __init__(self) -> None:
        self._tokens: set[int] = set()
        self._last = ""
        self._out_of_order: set[str] = set()
        self._empty = 0
        self._repeated = 0

    def page(self, names: Sequence[str], token: str | None) -> None:
        """Record a page with these keys or ids, and the token of the next page."""
        if token is None:
            return
        if hash(token) in self._tokens:
            raise endless("a listing with repeated tokens")
        self._tokens.add(hash(token))
        self._empty = 0 if names else self._empty + 1
        self._repeated = self._repeated + 1 if names and not self._is_new(names) else 0
        if self._empty > MAX_EMPTY_PAGES:
            raise endless("one empty page after another")
        if self._repeated >= MAX_REPEATED_PAGES:
            raise endless("the same entries again and again")

    def _is_new(self, names: Sequence[str]) -> bool:
        last = max(names)
        if last > self._last:
            self._last = last
            return True
        unknown = self._out_of_order.symmetric_difference(names) - self._out_of_order
        self._out_of_order |= unknown
        return bool(unknown)


def endless(what: str) -> ProviderFailed:
    return ProviderFailed(
        "The storage sends an endless listing. Tell your administrator.", cause=f"the service sent {what}"
    )


MAX_FILE_SIZE = 2**63 - 1
_MAX_ETAG = 256
_DIGITS = re.compile(r"[0-9]{1,19}")


def malformed_response(what: str) -> ProviderFailed:
    """The error for a response that cannot be right; `what` ends the sentence “the service sent …”."""
    return ProviderFailed(
        "The storage sent an invalid response. Tell your administrator.", cause=f"the service sent {what}"
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


def retry_seconds(text: str | None) -> int | None:
    """The seconds of a `Retry-After` header, an hour at most; None if it is missing or a date."""
    return min(int(text), 3600) if text and _DIGITS.fullmatch(text) else None
