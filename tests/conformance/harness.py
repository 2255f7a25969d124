"""The providers under test, and what is known to differ from one to the next.

A provider joins by an entry in `PROVIDERS`: a context that gives a `Harness` on fresh, empty storage and takes
it away again.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path as Folder

import pytest

from portico.errors import PorticoError
from portico.providers.base import Provider
from portico.providers.registry import open_provider


@dataclass(frozen=True, slots=True)
class Harness:
    open: Callable[[], Provider]
    """One more provider object on the same storage, as another node has it. Whoever opens it closes it."""
    open_other: Callable[[], Provider]
    """A provider of the same kind on other storage: another bucket, container, share or folder."""
    part: int
    """At how many bytes the provider begins a new part, block or batch of an upload."""
    whole_order: bool = False
    """Whether folders first, by code point, holds over a whole folder and not only within a page."""
    keeps_types: bool = True
    """Whether the content type given to a write is kept, and not guessed from the name."""


Factory = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Harness]]


@asynccontextmanager
async def local(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    top: Folder = request.getfixturevalue("tmp_path")

    def opener(name: str) -> Callable[[], Provider]:
        folder = top / name
        folder.mkdir()
        return lambda: open_provider("local", {"folder": str(folder)})

    yield Harness(opener("storage"), opener("other"), part=2**20, whole_order=True, keeps_types=False)


PROVIDERS: Mapping[str, Factory] = {
    "local": local,
}

ROOTS: Mapping[str, str] = {"top": "", "below": "team/a"}
"""Where the drive under test begins in its provider."""


@dataclass(frozen=True, slots=True)
class Refusal:
    error: type[PorticoError]
    reason: str


SERVER_GAPS: Mapping[tuple[str, str], str] = {}
"""(provider, test) -> why the test's server, unlike the service itself, cannot do this; with a link."""

SERVICE_LIMITS: Mapping[tuple[str, str], Refusal] = {}
"""(provider, test) -> with which error the service itself forbids this, and where it says so."""


def known_gap(provider: str, test: str) -> pytest.MarkDecorator | None:
    """The mark for a test that is known to fail: strict, so that it is told when it no longer does.

    `test` is the function's name, with its own case if it has one: `test_odd_name[emoji]`.
    """
    if reason := SERVER_GAPS.get((provider, test)):
        return pytest.mark.xfail(strict=True, reason=reason)
    if refusal := SERVICE_LIMITS.get((provider, test)):
        return pytest.mark.xfail(strict=True, raises=refusal.error, reason=refusal.reason)
    return None
