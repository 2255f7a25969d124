"""Reading a page of a share's listing."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote
from xml.sax.saxutils import escape

from portico.model import timestamps
from portico.model.entries import FOLDER_TYPE, Entry, guess_content_type
from portico.providers.wire.responses import check_sizes, malformed_response
from portico.providers.wire.xml_listing import Shape, read

_SHAPE = Shape(
    {"Directory": ("Name", "LastWriteTime"), "File": ("Name", "Content-Length", "LastWriteTime")}, ("NextMarker",)
)
_ENCODED = re.compile(rb'<Name Encoded="true">([^<]*)</Name>')
_INEXPRESSIBLE = re.compile("[\x00-\x1f]")


@dataclass(slots=True)
class FolderListing:
    """A page as the service sent it, with all names."""

    entries: list[Entry]
    token: str | None
    now: datetime
    """By the service's clock."""


def read_listing(body: bytes, sent: str | None, now: datetime, asked: int) -> FolderListing:
    """The entries of a page; `sent` is the token of the request."""
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
        raise malformed_response("a listing with a record that lacks its name, size or time") from None
    check_sizes([entry.size or 0 for entry in entries])
    token = document.fields["NextMarker"]
    if token is None:  # the last page has an empty one
        raise malformed_response("something that is not a listing")
    if token and token == sent:
        raise malformed_response("the marker of the request as the next one")
    return FolderListing(entries, token or None, now)


def stamp(text: str | None) -> str | None:
    """A time with up to seven fractional digits, as the service writes it."""
    return timestamps.from_iso(text) if text else None


def _text(value: str | None) -> str:
    if value is None:
        raise ValueError
    return value


def _plain(match: re.Match[bytes]) -> bytes:
    """Decode a name whose characters XML does not allow. One that `Path` does not allow either becomes invalid."""
    name = unquote(match[1].decode(), errors="replace")
    return f"<Name>{'.' if _INEXPRESSIBLE.search(name) else escape(name)}</Name>".encode()
