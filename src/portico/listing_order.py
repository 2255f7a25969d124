"""The order of a listing: folders first, then files, each by code point."""

from operator import attrgetter

from portico.entries import Entry

_BY_NAME = attrgetter("name")
_IS_FOLDER = attrgetter("is_folder")


def sort_entries(entries: list[Entry]) -> None:
    """Sort one page in place. Two sorts with C keys are quicker than one with a Python key."""
    entries.sort(key=_BY_NAME)
    entries.sort(key=_IS_FOLDER, reverse=True)
