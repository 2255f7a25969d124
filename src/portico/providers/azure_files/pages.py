"""Reading a page of a share's listing."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote
from xml.sax.saxutils import escape

from portico import timestamps
from portico.entries import FOLDER_TYPE, Entry, guess_content_type
from portico.providers.answers import check_sizes, nonsense
from portico.providers.xml_pages import Shape, read

_SHAPE = Shape(
    {"Directory": ("Name", "LastWriteTime"), "File": ("Name", "Content-Length", "LastWriteTime")},
    ("NextMarker",),
)
_ENCODED = re.compile(rb'<Name Encoded="true">([^<]*)</Name>')
_INEXPRESSIBLE = re.compile("[\x00-\x1f]")


@dataclass(slots=True)
class Listing:
    """A page as the service sent it: whatever the names."""

    entries: list[Entry]
    token: str | None
    now: datetime
    """By the service's clock."""


def read_listing(body: bytes, sent: str | None, now: datetime, asked: int) -> Listing:
    """The entries of a page; `sent`: the token that it was asked with."""
    if b"Encoded=" in body:
        body = _ENCODED.sub(_plain, body)
    document = read(body, _SHAPE, asked)
    try:
        entries = [
            Entry(_text(name), True, last_modified=stamp(written), content_type=FOLDER_TYPE)
            for name, written in document.records["Directory"]
        ]
        files = document.records["File"]
        moments = timestamps.from_isos([_text(written) for _, _, written in files])
        for (name, size, _), written in zip(files, moments, strict=True):
            name = _text(name)
            entries.append(Entry(name, False, int(_text(size)), written, guess_content_type(name)))
    except ValueError:
        raise nonsense("a listing with a record that lacks its name, size or time") from None
    check_sizes([entry.size or 0 for entry in entries])
    token = document.fields["NextMarker"]
    if token is None:  # a listing that has ended has an empty one
        raise nonsense("something that is no listing")
    if token and token == sent:
        raise nonsense("the marker of a listing that it was asked with")
    return Listing(entries, token or None, now)


def stamp(text: str | None) -> str | None:
    """A time with up to seven digits behind the second, as the service writes it."""
    return timestamps.from_iso(text) if text else None


def _text(value: str | None) -> str:
    if value is None:
        raise ValueError
    return value


def _plain(match: re.Match[bytes]) -> bytes:
    """A name with characters that XML cannot hold comes percent-encoded; one that we cannot hold either is no name."""
    name = unquote(match[1].decode(), errors="replace")
    return f"<Name>{'.' if _INEXPRESSIBLE.search(name) else escape(name)}</Name>".encode()
