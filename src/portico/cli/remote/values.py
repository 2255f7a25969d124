"""Paths and patterns on the gateway, as typed on the command line."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import translate
from types import SimpleNamespace
from typing import Any

from portico.cli.console.exits import Missing, UsageMistake
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.errors import Forbidden, NotAFolder, NotFound
from portico.client.paths import clean, join, split
from portico.settings import parsers

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float) -> str:
    """`1234567` as `1.2 MB`."""
    step = 0
    while count >= 999.5 and step < len(_UNITS) - 1:
        count /= 1000
        step += 1
    return f"{count:.{1 if step and count < 9.95 else 0}f} {_UNITS[step]}"


def span(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{clock(seconds)} min" if seconds < 3600 else f"{clock(seconds)} h"


def clock(seconds: float) -> str:
    """`4:05`, or from an hour on `1:04:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


_SPAN = re.compile("([0-9]+[smhdw])+")


def given(options: SimpleNamespace, known: Mapping[str, tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """The parsed values of the options that were given; for each, `known` has its name there and its parser."""
    found = {}
    for option, (name, parse) in known.items():
        if text := getattr(options, option):
            try:
                found[name] = parse(text)
            except ValueError as error:
                raise UsageMistake(f"--{option.replace('_', '-')} {str(error).partition(';')[0]}.") from None
    return found


def ago(text: str) -> datetime:
    """An age, or a date or time, which is local unless it has a zone."""
    return _moment(text, -1, "must be an age like 7d or 12h, or a date like 2026-11-14")


def from_now(text: str) -> datetime:
    """A time from now, or a date or time, which is local unless it has a zone."""
    return _moment(text, 1, "must be a time from now like 7d or 12h, or a date like 2026-12-24")


def _moment(text: str, direction: int, advice: str) -> datetime:
    try:
        if _SPAN.fullmatch(text):
            return datetime.now(UTC) + direction * parsers.duration(text)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(advice) from None


@contextmanager
def report_missing(path: str, *, folder: bool = False) -> Iterator[None]:
    """Raise `Missing` instead of `NotFound`, with the kind that was requested."""
    try:
        yield
    except NotFound:
        kind = "folder" if folder else "file"
        raise Missing(f"Remote {kind} '{path}' not found.", folder=folder) from None


def find(client: Client, path: str, *, folder: bool = False) -> Entry:
    """A file or folder; raises `Missing` if it does not exist."""
    with report_missing(path, folder=folder or path.endswith("/")):
        entry = client.stat(path)
    if path.endswith("/") and not entry.is_folder:
        raise NotAFolder(f"'{clean(path)}' is a file, not a folder.")
    return entry


def is_folder(client: Client, path: str) -> bool:
    """Whether a target is a folder: it exists as one, or ends with a slash.

    False if the user may not look; the gateway then reports any conflict.
    """
    if path.endswith("/") or not path:
        return True
    try:
        return client.stat(path).is_folder
    except (NotFound, Forbidden):
        return False


def is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def expand_patterns(client: Client, paths: list[str], *, folder: bool = False) -> list[str]:
    """The paths, with each pattern replaced by its matches; raises `Missing` if it has none."""
    found: list[str] = []
    for path in paths:
        if not is_pattern(path):
            found.append(path)
            continue
        matches = list(_matches(client, path))
        if not matches:
            raise Missing(f"No remote path matches '{path}'.", folder=folder or path.endswith("/"))
        found += matches
    return found


def _matches(client: Client, pattern: str) -> Iterator[str]:
    inner = clean(pattern).removeprefix("/")
    only_folders = pattern.endswith("/")
    places = ["/"]
    segments = inner.split("/")
    for depth, segment in enumerate(segments):
        last = depth == len(segments) - 1
        if not is_pattern(segment):
            places = [join(place, segment) for place in places]
            if last and len(segments) > 1:
                places = [place for place in places if _exists(client, place)]
            continue
        places = [
            join(place, entry.name)
            for place in places
            for entry in _matching(client, place, segment)
            if entry.is_folder or (last and not only_folders)
        ]
    yield from places


def _matching(client: Client, folder: str, segment: str) -> list[Entry]:
    """The entries whose names match. A name equal to the pattern is the only match."""
    match = re.compile(translate(segment)).match
    found = []
    try:
        for entry in client.list(folder):
            if entry.name == segment:
                return [entry]
            if match(entry.name):
                found.append(entry)
    except (NotFound, NotAFolder):
        return []
    return found


def _exists(client: Client, path: str) -> bool:
    try:
        client.stat(path)
    except (NotFound, NotAFolder):
        return False
    return True


def parse_source(path: str) -> tuple[str, bool]:
    """The path, and whether its content is meant without the folder itself, as in `folder/.`."""
    if path in ("", ".", "/", "/."):
        return "/", True
    return (path[:-1], True) if path.endswith("/.") else (path, False)


def check_unique_names(names: Iterable[str]) -> None:
    """Reject two sources with the same name: in one target folder, one would replace the other."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageMistake(
                f"Two sources have the name '{name}'; transfer them separately, because one would replace the other."
            )
        seen.add(name)


def name_of(path: str) -> str:
    return split(clean(path))[1]
