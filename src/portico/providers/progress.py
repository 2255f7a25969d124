"""Detects listings that never end: every page must make progress."""

from collections.abc import Sequence

from portico.errors import ProviderFailed

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
        "The storage service sends an endless listing; tell the administrator.",
        cause=f"the service sent {what}",
    )
