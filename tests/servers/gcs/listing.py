"""Pages of names: prefix, delimiter, one limit for objects and prefixes, an opaque token with the last name."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any

from .buckets import Bucket
from .refusals import Refusal, invalid

_MOST = 1000


def list_page(bucket: Bucket, query: Mapping[str, str], base: str) -> dict[str, Any]:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    most = _size(query.get("maxResults"))
    names, keys = bucket.sorted_names()
    last = _read_token(query.get("pageToken"))
    place = bisect_left(keys, prefix.encode()) if last is None else _after(keys, last, delimiter)
    place = max(place, bisect_left(keys, prefix.encode()))
    items: list[dict[str, Any]] = []
    prefixes: list[str] = []
    while place < len(names) and names[place].startswith(prefix):
        if len(items) + len(prefixes) == most:
            return _page(items, prefixes, _make_token(last or ""))
        last = names[place]
        cut = last.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            items.append(bucket.objects[last].resource(base))
            place += 1
        else:
            last = last[: cut + len(delimiter)]
            prefixes.append(last)
            place = _after(keys, last, delimiter)
    return _page(items, prefixes, None)


def _after(keys: list[bytes], last: str, delimiter: str) -> int:
    """The place behind a name, or behind all that begin with a prefix."""
    place = bisect_right(keys, last.encode())
    if delimiter and last.endswith(delimiter):
        while place < len(keys) and keys[place].startswith(last.encode()):
            place += 1
    return place


def _page(items: list[dict[str, Any]], prefixes: list[str], token: str | None) -> dict[str, Any]:
    page: dict[str, Any] = {"kind": "storage#objects"}
    for name, value in (("nextPageToken", token), ("prefixes", prefixes), ("items", items)):
        if value:
            page[name] = value
    return page


def _size(text: str | None) -> int:
    if text is None:
        return _MOST
    if not (text.isascii() and text.lstrip("-").isdigit()) or int(text) <= 0:
        raise invalid(f"Invalid unsigned integer value: '{text}'.")
    return min(int(text), _MOST)


def _make_token(last: str) -> str:
    # Like the service's own: a message of one field, number 1, of bytes.
    name = last.encode()
    length = bytes([len(name)]) if len(name) < 128 else bytes([len(name) & 127 | 128, len(name) >> 7])
    return urlsafe_b64encode(b"\n" + length + name).decode()


def _read_token(token: str | None) -> str | None:
    if token is None:
        return None
    try:
        message = urlsafe_b64decode(token.encode())
        name = message[2 if message[1] < 128 else 3 :].decode()
    except (ValueError, IndexError):
        raise invalid() from None
    if _make_token(name) != token:
        raise invalid()
    return name


def trimmed(document: Any, fields: str | None) -> Any:
    """The document with the fields that `a,b(c,d),e/f` names."""
    if fields is None or fields == "*":
        return document
    return _keep(document, _parse(fields))


Selection = dict[str, "Selection"]


def _keep(value: Any, wanted: Selection) -> Any:
    if not wanted or "*" in wanted:
        return value
    if isinstance(value, list):
        return [_keep(item, wanted) for item in value]
    if not isinstance(value, dict):
        raise Refusal(400, "invalidParameter", "Invalid field selection")
    return {name: _keep(value[name], below) for name, below in wanted.items() if name in value}


def _parse(text: str) -> Selection:
    selection, rest = _parse_list(text)
    if rest:
        raise Refusal(400, "invalidParameter", f"Invalid field selection {text}")
    return selection


def _parse_list(text: str) -> tuple[Selection, str]:
    selection: Selection = {}
    while True:
        end = next((place for place, letter in enumerate(text) if letter in ",()/"), len(text))
        name, text = text[:end], text[end:]
        if not (name == "*" or name.isalnum()):
            raise Refusal(400, "invalidParameter", f"Invalid field selection {name}")
        below: Selection = {}
        if text.startswith("/"):
            # The rest of the path, up to the next comma, belongs to this name.
            end = next((place for place, letter in enumerate(text) if letter in ",)"), len(text))
            below, text = _parse(text[1:end]), text[end:]
        elif text.startswith("("):
            below, text = _parse_list(text[1:])
            if not text.startswith(")"):
                raise Refusal(400, "invalidParameter", "Invalid field selection: unbalanced")
            text = text[1:]
        selection[name] = below
        if not text.startswith(","):
            return selection, text
        text = text[1:]
