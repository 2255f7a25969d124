"""A page of keys, read from the service's own XML."""

from urllib.parse import unquote_plus

from portico import timestamps
from portico.entries import Entry, guess_content_type
from portico.providers.objects import Listing
from portico.providers.s3.faults import nonsense
from portico.providers.xml_pages import Shape, read

_SHAPE = Shape(
    records={"Contents": ("Key", "Size", "LastModified"), "CommonPrefixes": ("Prefix",)},
    fields=("IsTruncated", "NextContinuationToken", "EncodingType"),
)


def read_listing(body: bytes, sent_token: str | None) -> Listing:
    document = read(body, _SHAPE)
    truncated = document.fields["IsTruncated"]
    if truncated is None:  # an error that came as a success, or anything else
        raise nonsense("something that is no listing")
    # Escaped, because XML cannot hold every character that a key can.
    escaped = document.fields["EncodingType"] == "url"
    objects = [_entry(key, size, modified, escaped) for key, size, modified in document.records["Contents"]]
    prefixes = [_text(prefix, escaped) for (prefix,) in document.records["CommonPrefixes"]]
    return Listing(objects, prefixes, _token(document.fields["NextContinuationToken"], truncated, sent_token))


def _entry(key: str | None, size: str | None, modified: str | None, escaped: bool) -> Entry:
    name = _text(key, escaped)
    try:
        return Entry(
            name, False, int(size or ""), timestamps.from_iso(modified or ""), guess_content_type(name)
        )
    except ValueError:
        raise nonsense("an object without a size or a time") from None


def _text(value: str | None, escaped: bool) -> str:
    if not value:
        raise nonsense("an entry without a key")
    return unquote_plus(value) if escaped and ("%" in value or "+" in value) else value


def _token(token: str | None, truncated: str, sent_token: str | None) -> str | None:
    if truncated.strip().lower() != "true":
        return None  # some services send a token with the last page too
    if not token:
        raise nonsense("a listing that goes on without saying where")
    if token == sent_token:
        raise nonsense("a listing that does not move on")
    return token
