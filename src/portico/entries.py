"""What a tree consists of: `Entry`, `Page` and `Download`."""

import mimetypes
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Protocol

import msgspec

from portico import timestamps

_LONGEST_SUFFIX = 17  # with its dot

FOLDER_TYPE = "folder"
UNKNOWN_TYPE = "application/octet-stream"

# The table of Python itself, not the machine's: the same name has the same type on every node.
_TYPES = mimetypes.MimeTypes(filenames=())
for _type, _suffix in (
    ("application/vnd.apache.parquet", ".parquet"),
    ("application/x-7z-compressed", ".7z"),
    ("application/yaml", ".yaml"),
    ("application/yaml", ".yml"),
    ("image/webp", ".webp"),
    ("text/markdown", ".md"),
):
    _TYPES.add_type(_type, _suffix)


def guess_content_type(name: str) -> str:
    """The media type that the name suggests."""
    dot = name.rfind(".")
    return _suffix_type(name[dot:]) if 0 <= dot >= len(name) - _LONGEST_SUFFIX else UNKNOWN_TYPE


@lru_cache(maxsize=1024)
def _suffix_type(suffix: str) -> str:
    kind, encoding = _TYPES.guess_type(f"x{suffix.lower()}", strict=False)
    if encoding == "gzip":
        return "application/gzip"
    return UNKNOWN_TYPE if kind is None or encoding else kind


class Entry(msgspec.Struct, gc=False):
    """A file or a folder, by its name in the folder that holds it."""

    name: str
    is_folder: bool
    size: int | None = None
    last_modified: str | None = None
    """As `timestamps` writes it. Files always have it; folders where the service knows it."""
    content_type: str = UNKNOWN_TYPE
    etag: str | None = None
    """Changes whenever the content does. Without quotes. Listings may leave it out."""

    @property
    def modified(self) -> datetime | None:
        return timestamps.to_datetime(self.last_modified) if self.last_modified else None


@dataclass(slots=True)
class Page:
    """A part of a folder's listing; only a `token` of None ends the listing."""

    entries: list[Entry]
    token: str | None = None


class Chunks(Protocol):
    """A stream of bytes that gives back what it holds when it is closed, even if nothing was ever read of it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def __anext__(self) -> Awaitable[bytes]: ...

    def aclose(self) -> Awaitable[None]: ...


@dataclass(slots=True)
class Download:
    """A file's content on its way out: bytes `start` up to `stop` of `entry`."""

    entry: Entry
    start: int
    stop: int
    chunks: Chunks = field(repr=False)
    """Must be closed (`aclose`) by whoever took it, read to its end or not."""
