"""A page of keys, read from the service's own XML."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote_plus

from portico.model import timestamps
from portico.model.entries import Entry, guess_content_type
from portico.model.timestamps import from_isos
from portico.providers.objects import service
from portico.providers.objects.service import MTIME, KeyPage
from portico.providers.wire.responses import check_sizes, etag_of, malformed_response, size_of
from portico.providers.wire.xml_listing import Shape, read


def entry_of(key: str, response: dict[str, Any], size: int | None = None) -> Entry:
    """The object that a GET or HEAD describes; `size` if it is not the length of the content."""
    try:
        written = timestamps.from_datetime(require(response, "LastModified"))
        modified = service.read(response.get("Metadata", {}).get(MTIME)) or written
    except ValueError:
        raise malformed_response("an object with an invalid date") from None
    return Entry(
        key,
        False,
        size_of(str(require(response, "ContentLength") if size is None else size)),
        modified,
        response.get("ContentType") or "binary/octet-stream",
        etag_of(require(response, "ETag")),
        written=written,
        version=response.get("VersionId"),
    )


def require(response: dict[str, Any], name: str) -> Any:
    if name not in response:
        raise malformed_response(f"a response without {name}")
    return response[name]


def response_time(response: dict[str, Any]) -> str:
    """The time of a response by the service's clock."""
    try:
        moment = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, ValueError):
        moment = datetime.now(UTC)
    return timestamps.from_datetime(moment)


_FIELDS = ("IsTruncated", "NextContinuationToken", "EncodingType")
_SHAPE = Shape({"Contents": ("Key", "Size", "LastModified"), "CommonPrefixes": ("Prefix",)}, _FIELDS)
_FLAT_SHAPE = Shape({"Contents": ("Key", "Size", "LastModified", "ETag"), "CommonPrefixes": ("Prefix",)}, _FIELDS)


def read_listing(body: bytes, sent_token: str | None, asked: int, flat: bool = False) -> KeyPage:
    document = read(body, _FLAT_SHAPE if flat else _SHAPE, asked)
    truncated = document.fields["IsTruncated"]
    if truncated is None:  # an error that came as a success, or anything else
        raise malformed_response("something that is not a listing")
    # Escaped, because XML cannot hold every character that a key can.
    escaped = document.fields["EncodingType"] == "url"
    contents = document.records["Contents"]
    keys = _keys([record[0] for record in contents], escaped)
    try:
        sizes = [int(record[1] or "") for record in contents]
        moments = from_isos([record[2] or "" for record in contents])
    except ValueError:
        raise malformed_response("an object without a size or a time") from None
    check_sizes(sizes)
    objects = [
        Entry(key, False, size, modified, guess_content_type(key))
        for key, size, modified in zip(keys, sizes, moments, strict=True)
    ]
    if flat:
        for entry, (*_, etag) in zip(objects, contents, strict=True):
            entry.etag = etag_of(etag)
    prefixes = _keys([prefix for (prefix,) in document.records["CommonPrefixes"]], escaped)
    return KeyPage(objects, prefixes, _token(document.fields["NextContinuationToken"], truncated, sent_token))


def _keys(values: list[str | None], escaped: bool) -> list[str]:
    keys = [value for value in values if value]
    if len(keys) < len(values):
        raise malformed_response("an entry without a key")
    text = "".join(keys)
    return [unquote_plus(key) for key in keys] if escaped and ("%" in text or "+" in text) else keys


def _token(token: str | None, truncated: str, sent_token: str | None) -> str | None:
    if truncated.strip().lower() != "true":
        return None  # some services send a token with the last page too
    if not token:
        raise malformed_response("a truncated listing without a continuation token")
    if token == sent_token:
        raise malformed_response("a listing that makes no progress")
    return token
