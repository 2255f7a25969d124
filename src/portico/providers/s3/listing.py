"""A page of keys, read from the service's own XML."""

from urllib.parse import unquote_plus

from portico.entries import Entry, guess_content_type
from portico.providers.keys import KeyPage
from portico.providers.responses import check_sizes, etag_of, malformed_response
from portico.providers.xml_listing import Shape, read
from portico.timestamps import from_isos

_FIELDS = ("IsTruncated", "NextContinuationToken", "EncodingType")
_SHAPE = Shape({"Contents": ("Key", "Size", "LastModified"), "CommonPrefixes": ("Prefix",)}, _FIELDS)
_FLAT_SHAPE = Shape(
    {"Contents": ("Key", "Size", "LastModified", "ETag"), "CommonPrefixes": ("Prefix",)}, _FIELDS
)


def read_listing(body: bytes, sent_token: str | None, asked: int, flat: bool = False) -> KeyPage:
    document = read(body, _FLAT_SHAPE if flat else _SHAPE, asked)
    truncated = document.fields["IsTruncated"]
    if truncated is None:  # an error that came as a success, or anything else
        raise malformed_response("something that is no listing")
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
        raise malformed_response("a listing that goes on without saying where")
    if token == sent_token:
        raise malformed_response("a listing that does not move on")
    return token
