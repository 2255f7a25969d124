"""Walks over what a service lists, bounded by progress: a service that goes in circles is found out."""

from collections.abc import Sequence

from portico.errors import ProviderFailed

MOST_EMPTY = 100
"""Pages in a row that may show nothing, as long as each has a token of its own: services do that at times."""
MOST_REPEATED = 3
"""Pages in a row that may show only what was shown before."""


class Progress:
    """Is shown every page of one walk, and raises `ProviderFailed` where the walk does not get on.

    Most services list in order, where a page gets on if it goes beyond all before it. What comes out of order is
    remembered, so that memory is used only for services that do not.
    """

    def __init__(self) -> None:
        self._tokens: set[int] = set()
        self._last = ""
        self._out_of_order: set[str] = set()
        self._empty = 0
        self._repeated = 0

    def page(self, names: Sequence[str], token: str | None) -> None:
        """`names`: what the page shows, by keys or ids; `token`: where the next one begins."""
        if token is None:
            return
        if hash(token) in self._tokens:
            raise endless("a listing whose tokens go in circles")
        self._tokens.add(hash(token))
        self._empty = 0 if names else self._empty + 1
        self._repeated = self._repeated + 1 if names and not self._is_new(names) else 0
        if self._empty > MOST_EMPTY:
            raise endless("one empty page after another")
        if self._repeated >= MOST_REPEATED:
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
        "The storage service sends a listing without an end; tell the administrator.",
        cause=f"the service sent {what}",
    )
