"""`portico ls` and `portico find`."""

from collections.abc import Callable, Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

from portico.cli.console.output import print_json
from portico.cli.console.terminal import standard_output
from portico.cli.remote import values
from portico.cli.remote.connect import connect
from portico.cli.remote.values import ago, expand_patterns, find, given, report_missing
from portico.client.client import Client
from portico.client.entries import Entry
from portico.client.errors import NotAFolder
from portico.client.paths import clean
from portico.client.search import Criteria
from portico.model.visible_text import visible
from portico.settings import parsers

_CRITERIA: dict[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", str),
    "type": ("type", lambda text: {"f": "file", "d": "folder"}.get(text, text)),
    "larger": ("min_size", parsers.size),
    "smaller": ("max_size", parsers.size),
    "newer": ("modified_after", ago),
    "older": ("modified_before", ago),
}
"""The options of `find`: what the client calls each of them, and what parses it."""


def ls(options: SimpleNamespace) -> None:
    show = shown(options)
    with connect(options) as client:
        paths = expand_patterns(client, options.paths or ["/"], folder=True)
        titled = len(paths) > 1 and not (options.recursive or options.as_json)
        for index, path in enumerate(paths):
            entries, is_folder = _entries(client, path, recursive=options.recursive)
            if titled and is_folder:
                print(f"{'' if index == 0 else chr(10)}{visible(clean(path))}:")
            for place, entry in entries:
                show(place if options.recursive else None, entry)


def _entries(client: Client, path: str, *, recursive: bool) -> tuple[Iterator[tuple[str, Entry]], bool]:
    """The entries of a path, each with its full path, and whether the path is a folder."""
    folder = clean(path)
    walk = ((each.path, each) for each in client.list(folder, recursive=recursive))
    try:
        with report_missing(path, folder=True):
            first = next(walk, None)
    except NotAFolder:
        entry = find(client, path)
        return iter([(entry.path, entry)]), False
    return chain([first] if first else [], walk), True


def shown(options: SimpleNamespace) -> Callable[[str | None, Entry], None]:
    """Prints an entry, as the options want it; with its path if one is given."""
    standard_output()  # if it is closed, say so before the first request
    if options.as_json:
        return lambda _, entry: print_json(_fields(entry))

    def shown_name(path: str | None, entry: Entry) -> str:
        return visible(path or entry.name) + "/" * entry.is_folder

    def plain(path: str | None, entry: Entry) -> None:
        print(shown_name(path, entry))

    def long(path: str | None, entry: Entry) -> None:
        size = "" if entry.size is None or entry.is_folder else str(entry.size)
        if size and options.human:
            size = values.size(entry.size or 0)
        moment = f"{entry.modified.astimezone():%Y-%m-%d %H:%M:%S}" if entry.modified else ""
        print(f"{size:>{8 if options.human else 14}}  {moment:19}  {shown_name(path, entry)}")

    return long if options.long or options.human else plain


def _fields(entry: Entry) -> dict[str, object]:
    """The entry with the field names of the API."""
    return {
        "name": entry.name,
        "absolutePath": entry.path,
        "type": "DIRECTORY" if entry.is_folder else "REGULAR",
        "size": entry.size,
        "contentType": entry.content_type,
        "lastModified": entry.last_modified,
    }


def search(options: SimpleNamespace) -> None:
    show = shown(options)
    criteria = cast("Criteria", given(options, _CRITERIA))
    if options.name:
        criteria["match_case"] = options.match_case
    with connect(options) as client:
        for path in options.paths or ["/"]:
            with report_missing(path, folder=True):
                for entry in client.search(path, **criteria):
                    show(entry.path, entry)
