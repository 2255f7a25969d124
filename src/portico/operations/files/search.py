"""Searching: the entries below a folder that meet some criteria, as far as one request may look."""

import re
import time
import unicodedata
from collections.abc import Callable
from fnmatch import translate

import msgspec

from portico.model.entries import Entry
from portico.model.paths import Path
from portico.operations.actors.request_context import Looking
from portico.operations.actors.tree import Walk
from portico.runtime.fair_scheduling import SLICE, FairScheduler

MAX_LOOKED = 20_000
MAX_SECONDS = 1.0
"""How much one request looks at; the next one goes on from there."""
_PAGE, _MIN_PAGE = 1000, 100
"""What one call asks the storage for; a call for less is hardly quicker."""
_PATIENCE = 5
_SLICE_SECONDS = 0.002
_CHARACTERS = frozenset("?[")
"""Wildcards for one character."""


class Criteria(msgspec.Struct, frozen=True):
    """What an entry must be like. Folders have no size or type, and not everywhere a time."""

    name: str = ""
    """A part of the name, or a pattern for all of it if it has one of `*?[`."""
    match_case: bool = False
    is_folder: bool | None = None
    content_type: str = ""
    """The beginning of it."""
    min_size: int | None = None
    max_size: int | None = None
    modified_after: str | None = None
    modified_before: str | None = None
    """As `timestamps` writes them; the moment itself is included."""


class SearchPage(msgspec.Struct, frozen=True):
    found: list[tuple[Path, Entry]]
    passed: int
    """Entries that were looked at, since the search began."""
    cursor: str | None


async def search(walk: Walk, criteria: Criteria, size: int, looking: Looking, scheduler: FairScheduler) -> SearchPage:
    """About `size` entries. There may be fewer, or none, although more follow.

    `looking`: waits for the turn to look at so many entries.
    """
    matches = _matcher(criteria)
    found: list[tuple[Path, Entry]] = []
    began, first = time.monotonic(), walk.passed
    while not walk.ended:
        wanted = min(_PAGE, max(_MIN_PAGE, size - len(found)))
        async with looking(wanted):
            page = await walk.page(wanted)
        due = 0.0
        for path, entry in page:
            if (now := time.monotonic()) >= due:  # a pattern may be slow: others have their turn in between
                await scheduler.turn(SLICE)
                due = now + _SLICE_SECONDS
            if matches(entry):
                found.append((path, entry))
        looked = walk.passed - first
        enough = len(found) >= size or looked >= MAX_LOOKED or time.monotonic() - began >= MAX_SECONDS
        # Deep folders have long cursors: better to look at some more than to end where nobody can go on.
        if enough and (walk.can_pause or looked >= _PATIENCE * MAX_LOOKED):
            break
    return SearchPage(found, walk.passed, walk.cursor)


def _matcher(criteria: Criteria) -> Callable[[Entry], bool]:
    tests: list[Callable[[Entry], bool]] = []
    if criteria.is_folder is not None:
        tests.append(lambda entry: entry.is_folder is criteria.is_folder)
    if criteria.name:
        tests.append(_name_test(criteria.name, match_case=criteria.match_case))
    if kind := criteria.content_type.lower():
        tests.append(lambda entry: not entry.is_folder and entry.content_type.lower().startswith(kind))
    if (least := criteria.min_size) is not None:
        tests.append(lambda entry: entry.size is not None and entry.size >= least)
    if (most := criteria.max_size) is not None:
        tests.append(lambda entry: entry.size is not None and entry.size <= most)
    if (after := criteria.modified_after) is not None:
        tests.append(lambda entry: entry.last_modified is not None and entry.last_modified >= after)
    if (before := criteria.modified_before) is not None:
        tests.append(lambda entry: entry.last_modified is not None and entry.last_modified <= before)
    # The usual search is one by name alone, among thousands of entries.
    return tests[0] if len(tests) == 1 else lambda entry: all(test(entry) for test in tests)


def _name_test(wanted: str, *, match_case: bool) -> Callable[[Entry], bool]:
    wanted = _composed(wanted)
    if not _CHARACTERS.isdisjoint(wanted):
        test = re.compile(translate(wanted), 0 if match_case else re.IGNORECASE).match
        return lambda entry: test(_composed(entry.name)) is not None

    def folded(name: str) -> str:
        if name.isascii():
            return name if match_case else name.lower()
        return _composed(name) if match_case else _composed(name).casefold()

    first, *others = folded(wanted).split("*")
    if not others:
        return lambda entry: first in folded(entry.name)
    *middle, last = others
    return lambda entry: _has_pieces(folded(entry.name), first, middle, last)


def _has_pieces(name: str, first: str, middle: list[str], last: str) -> bool:
    """Whether the name is made of these pieces in order, with anything between them."""
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last):
        return False
    start = len(first)
    for piece in middle:
        found = name.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return start <= end


def _composed(name: str) -> str:
    """Some systems write `ü` as two characters, others as one; a user does not see which."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)
