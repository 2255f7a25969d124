"""The answer to List Blobs, with and without older versions."""

import base64
import binascii
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from email.utils import format_datetime
from itertools import islice
from xml.sax.saxutils import escape

from ..azure_files import Refusal
from .containers import Blob, Container

_MOST = 5000


def listing(container: Container, query: Mapping[str, str]) -> bytes:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    include = set(filter(None, query.get("include", "").split(",")))
    if include - {"metadata", "versions"} or ("versions" in include and delimiter):
        raise Refusal(400, "InvalidQueryParameterValue")
    size = _size(query.get("maxresults"))
    start = _read_marker(query["marker"]) if query.get("marker") else (prefix, "")
    records: list[str] = []
    marker = ""
    seen = ""
    for blob, current in _blobs(container, start, prefix, versions="versions" in include):
        cut = blob.name.find(delimiter, len(prefix)) if delimiter else -1
        folder = blob.name[: cut + 1] if cut >= 0 else ""
        if folder and folder == seen:
            continue
        if len(records) == size:
            marker = _make_marker(blob)
            break
        seen = folder or seen
        if folder:
            records.append(f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>")
        else:
            records.append(_record(blob, current, include))
    end = f"<NextMarker>{marker}</NextMarker>" if marker else "<NextMarker />"
    top = '<?xml version="1.0" encoding="utf-8"?><EnumerationResults>'
    return f"\ufeff{top}<Blobs>{''.join(records)}</Blobs>{end}</EnumerationResults>".encode()


def _blobs(container: Container, start: tuple[str, str], prefix: str, *, versions: bool) -> Iterator[tuple[Blob, bool]]:
    """By name, the oldest version first."""
    first = bisect_left(container.names, max(start[0], prefix))
    for name in islice(container.names, first, None):
        if not name.startswith(prefix):
            return
        older = [(blob, False) for blob in container.older.get(name, [])] if versions else []
        now = container.blobs.get(name)
        for blob, current in [*older, *([(now, True)] if now else [])]:
            if (name, blob.version or "") >= start:
                yield blob, current


def _record(blob: Blob, current: bool, include: set[str]) -> str:
    version = ""
    if "versions" in include and blob.version:
        version = f"<VersionId>{blob.version}</VersionId>"
        version += "<IsCurrentVersion>true</IsCurrentVersion>" if current else ""
    properties = (
        f"<Last-Modified>{format_datetime(blob.written, usegmt=True)}</Last-Modified>"
        f"<Etag>{blob.etag[1:-1]}</Etag><Content-Length>{len(blob.content)}</Content-Length>"
        f"<Content-Type>{escape(blob.headers['Content-Type'])}</Content-Type><BlobType>BlockBlob</BlobType>"
    )
    metadata = ""
    if "metadata" in include:
        pairs = {
            name.removeprefix("x-ms-meta-"): value
            for name, value in blob.headers.items()
            if name.startswith("x-ms-meta-")
        }
        inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in pairs.items())
        metadata = f"<Metadata>{inside}</Metadata>" if inside else "<Metadata />"
    name = f"<Name>{escape(blob.name)}</Name>"
    return f"<Blob>{name}{version}<Properties>{properties}</Properties>{metadata}</Blob>"


def _size(text: str | None) -> int:
    if text is None:
        return _MOST
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
        raise Refusal(400, "OutOfRangeQueryParameterValue")
    return min(int(text), _MOST)


def _make_marker(blob: Blob) -> str:
    encoded = base64.b64encode(f"{blob.name}\0{blob.version or ''}".encode()).decode()
    return f"2!{len(encoded)}!{encoded}"


def _read_marker(marker: str) -> tuple[str, str]:
    match = re.fullmatch(r"2!(\d{1,5})!([A-Za-z0-9+/]+=*)", marker)
    try:
        if match is None or int(match[1]) != len(match[2]):
            raise ValueError
        name, _, version = base64.b64decode(match[2], validate=True).decode().partition("\0")
    except (ValueError, binascii.Error):
        raise Refusal(400, "InvalidQueryParameterValue") from None
    return name, version
