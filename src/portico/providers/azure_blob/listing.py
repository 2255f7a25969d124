"""Reading a page of a listing, and the headers of one blob."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import unquote

from portico.model import timestamps
from portico.model.entries import FOLDER_TYPE, Entry, guess_content_type
from portico.providers.objects.service import MTIME, KeyPage
from portico.providers.objects.service import read as read_mtime
from portico.providers.objects.versions import Current
from portico.providers.wire.responses import check_sizes, etag_of, malformed_response, size_of
from portico.providers.wire.xml_listing import Document, Shape, read

_SUFFIX = re.compile(r"(.*)~([A-Za-z0-9_-]{11})?", re.DOTALL)


def join(marker: str, folder: str) -> str:
    """The token for a marker and a folder's hash, or none. Markers have no `~`, so most tokens are just the marker."""
    return f"{marker}~{folder}" if folder or "~" in marker else marker


def split(token: str) -> tuple[str, str]:
    """The marker and the folder's hash, which may be empty."""
    match = _SUFFIX.fullmatch(token)
    return (match[1], match[2] or "") if match else (token, "")


def hash_of(folder: str) -> str:
    digest = blake2b(folder.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


FOLDER_MARK = "hdi_isfolder"
"""The metadata by which Azure's own tools mark a zero-byte blob as a folder."""

VERSION_ID = "x-ms-version-id"
"""The header with the version of a blob that was written or read, if it has one."""

_PROPERTIES = (
    "Content-Length",
    "Last-Modified",
    "Content-Type",
    "Etag",
    "ResourceType",  # of accounts with a hierarchical namespace
    FOLDER_MARK,
)
_SHAPE = Shape({"Blob": ("Name", "EncodedName", *_PROPERTIES), "BlobPrefix": ("Name", "EncodedName")}, ("NextMarker",))
_SHAPE_OF_VERSIONS = Shape(
    {"Blob": (*("Name", "EncodedName", "VersionId", "IsCurrentVersion"), *("Content-Length", "Etag", FOLDER_MARK))},
    ("NextMarker",),
)
# Names with characters that XML does not allow are percent-encoded, as an attribute says.
_ENCODED = re.compile(rb'<Name\s+Encoded\s*=\s*"true"\s*>([^<]*)</Name\s*>')
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"


def read_page(body: bytes, asked: int, flat: bool) -> tuple[KeyPage, list[str]]:
    """A page of List Blobs, and the folders that blobs mark; if it is flat, these are objects that end in a slash."""
    page, marker = _read(body, _SHAPE, asked)
    listing = KeyPage([], [_name(*record) for record in page.records["BlobPrefix"]], marker)
    marked: list[str] = []
    for record in page.records["Blob"]:
        name, encoded, size, modified, content_type, etag, resource, mark = record
        key = _name(name, encoded)
        if resource == "directory" or ((mark or "").lower() == "true" and size == "0" and not key.endswith("/")):
            folder = key.rstrip("/") + "/"
            if flat:
                listing.objects.append(Entry(folder, True, content_type=FOLDER_TYPE))
            else:
                marked.append(folder)
        else:
            listing.objects.append(_file(key, size, modified, content_type, etag))
    check_sizes([entry.size or 0 for entry in listing.objects])
    return listing, marked


def read_versions(body: bytes, asked: int) -> tuple[list[Current], str, str | None]:
    """The current versions of a page of List Blobs with all versions, how far it goes, and the next marker."""
    page, marker = _read(body, _SHAPE_OF_VERSIONS, asked)
    found = []
    last = ""
    for record in page.records["Blob"]:
        name, encoded, version, current, size, etag, mark = record
        key = _name(name, encoded)
        last = f"{key}\0{version or ''}"
        if version is None or (current or "").lower() == "true":
            is_folder = (mark or "").lower() == "true" and size == "0"
            found.append(Current(Entry(key, is_folder, size_of(size), etag=etag_of(etag)), version))
    return found, last, marker


def _read(body: bytes, shape: Shape, asked: int) -> tuple[Document, str | None]:
    """A page, and the next marker."""
    if b"Encoded" in body:
        body = _ENCODED.sub(rb"<EncodedName>\1</EncodedName>", body)
    page = read(body, shape, asked)
    marker = page.fields["NextMarker"]
    if marker is None:
        raise malformed_response("a listing that doesn't say whether it continues")
    return page, marker or None


def _name(name: str | None, encoded: str | None) -> str:
    if name is not None:
        return name
    if encoded is None:
        raise malformed_response("a listing with an entry that has no name")
    return unquote(encoded, errors="surrogateescape")


def entry_of(key: str, headers: Mapping[str, str], size: int | None = None) -> Entry:
    """The blob that the headers of a GET or HEAD describe; `size` if it is not the length of the content."""
    length = headers.get("Content-Length") if size is None else str(size)
    marked = headers.get(f"x-ms-meta-{FOLDER_MARK}", "").lower() == "true" and length == "0"
    if headers.get("x-ms-resource-type") == "directory" or marked:
        return Entry(key, True, content_type=FOLDER_TYPE, etag=etag_of(headers.get("ETag")))
    size_of(length)
    entry = _file(key, length, headers.get("Last-Modified"), headers.get("Content-Type"), headers.get("ETag"))
    entry.written = entry.last_modified
    entry.version = headers.get(VERSION_ID)
    entry.last_modified = read_mtime(headers.get(f"x-ms-meta-{MTIME}")) or entry.last_modified
    return entry


def _file(key: str, size: str | None, modified: str | None, content_type: str | None, etag: str | None) -> Entry:
    try:
        return Entry(
            key, False, int(size or ""), _stamp(modified or ""), content_type or guess_content_type(key), etag_of(etag)
        )
    except ValueError:
        raise malformed_response("a blob without a size or a date") from None


@lru_cache(maxsize=4096)
def _stamp(text: str) -> str:
    return timestamps.from_datetime(moment(text))


def moment(text: str) -> datetime:
    """`Sun, 15 Nov 2026 03:20:09 GMT`, parsed ten times faster than by the standard library."""
    return datetime(
        int(text[12:16]),
        _MONTHS.index(text[8:11]) // 3 + 1,
        int(text[5:7]),
        int(text[17:19]),
        int(text[20:22]),
        int(text[23:25]),
        tzinfo=UTC,
    )
