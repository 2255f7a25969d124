"""A page of keys, read from the service's own XML."""

from urllib.parse import unquote_plus

from portico.entries import Entry, guess_content_type
from portico.providers.answers import check_page, nonsense
from portico.providers.objects import Listing
from portico.providers.xml_pages import Shape, read
from portico.timestamps import from_isos

_SHAPE = Shape(
    records={"Contents": ("Key", "Size", "LastModified"), "CommonPrefixes": ("Prefix",)},
    fields=("IsTruncated", "NextContinuationToken", "EncodingType"),
)


def read_listing(body: bytes, sent_token: str | None, asked: int) -> Listing:
    document = read(body, _SHAPE, asked)
    truncated = document.fields["IsTruncated"]
    if truncated is None:  # an error that came as a success, or anything else
        raise nonsense("something that is no listing")
    # Escaped, because XML cannot hold every character that a key can.
    escaped = document.fields["EncodingType"] == "url"
    contents = document.records["Contents"]
    keys = _keys([key for key, _, _ in contents], escaped)
    try:
        sizes = [int(size or "") for _, size, _ in contents]
        moments = from_isos([modified or "" for _, _, modified in contents])
    except ValueError:
        raise nonsense("an object without a size or a time") from None
    check_page(len(contents) + len(document.records["CommonPrefixes"]), asked, sizes)
    objects = [
        Entry(key, False, size, modified, guess_content_type(key))
        for key, size, modified in zip(keys, sizes, moments, strict=True)
    ]
    prefixes = _keys([prefix for (prefix,) in document.records["CommonPrefixes"]], escaped)
    return Listing(objects, prefixes, _token(document.fields["NextContinuationToken"], truncated, sent_token))


def _keys(values: list[str | None], escaped: bool) -> list[str]:
    keys = [value for value in values if value]
    if len(keys) < len(values):
        raise nonsense("an entry without a key")
    text = "".join(keys)
    return [unquote_plus(key) for key in keys] if escaped and ("%" in text or "+" in text) else keys


def _token(token: str | None, truncated: str, sent_token: str | None) -> str | None:
    if truncated.strip().lower() != "true":
        return None  # some services send a token with the last page too
    if not token:
        raise nonsense("a listing that goes on without saying where")
    if token == sent_token:
        raise nonsense("a listing that does not move on")
    return token
