"""`Entry`, `Page` and `Download`: what a tree consists of."""

import mimetypes
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from typing import Protocol

import msgspec

from portico.model import timestamps

_MAX_SUFFIX_LENGTH = 17  # with its dot

FOLDER_TYPE = "folder"
UNKNOWN_TYPE = "application/octet-stream"

_MORE_TYPES = (
    ("application/vnd.apache.parquet", ".parquet"),
    ("application/x-7z-compressed", ".7z"),
    ("application/yaml", ".yaml"),
    ("application/yaml", ".yml"),
    ("audio/flac", ".flac"),
    ("audio/mp4", ".m4a"),
    ("audio/ogg", ".oga"),
    ("audio/ogg", ".ogg"),
    ("audio/ogg", ".opus"),
    ("audio/wav", ".wav"),
    ("image/avif", ".avif"),
    ("image/webp", ".webp"),
    ("text/markdown", ".markdown"),
    ("text/markdown", ".md"),
    ("video/mp4", ".m4v"),
    ("video/ogg", ".ogv"),
    ("video/x-matroska", ".mkv"),
)
"""Beside those that Python knows."""


def guess_content_type(name: str) -> str:
    return _suffix_type(name[name.rfind(".") :])


def guess_content_types(names: list[str]) -> list[str]:
    """As `guess_content_type`, for a whole page: with one call for each suffix, not for each name."""
    suffixes = [name[name.rfind(".") :] for name in names]
    types = {suffix: _suffix_type(suffix) for suffix in set(suffixes)}
    return list(map(types.__getitem__, suffixes))


@cache
def _types() -> mimetypes.MimeTypes:
    """The table of Python itself, not the machine's: the same name has the same type on every node."""
    types = mimetypes.MimeTypes(filenames=())  # slow, since it reads the machine's all the same
    for kind, suffix in _MORE_TYPES:
        types.add_type(kind, suffix)
    return types


@lru_cache(maxsize=1024)
def _suffix_type(suffix: str) -> str:
    if suffix[:1] != "." or len(suffix) > _MAX_SUFFIX_LENGTH:
        return UNKNOWN_TYPE
    kind, encoding = _types().guess_type(f"x{suffix.lower()}", strict=False)
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
    replaced: bool = False
    """After a write: whether it replaced a file."""

    written: str | None = None
    """When the storage last wrote it, if it knows; `last_modified` may be what a client wants it to be."""
    content_id: str | None = None
    """Changes with the content only, where the etag changes with a new name, too."""
    version: str | None = None
    """By which the storage keeps this content when it is replaced or deleted, if it said so."""
    made_folders: int = 0
    """After a write: how many folders above it had to be made, where folders exist by themselves."""

    @property
    def modified(self) -> datetime | None:
        return timestamps.to_datetime(self.last_modified) if self.last_modified else None


def presentable(entry: Entry) -> Entry:
    """What others stored with a service may have a type that no header can hold."""
    if not (entry.content_type.isascii() and entry.content_type.isprintable()):
        entry.content_type = UNKNOWN_TYPE
    return entry


class Page(msgspec.Struct):
    """A part of a folder's listing; only a `token` of None ends the listing."""

    entries: list[Entry]
    token: str | None = None


class Chunks(Protocol):
    """A byte stream that releases its resources when closed, even if it was never read."""

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
    """The receiver must close it (`aclose`), whether or not it was read to its end."""
