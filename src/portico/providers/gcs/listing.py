"""Listing objects, decoded straight into entries."""

from typing import Literal

import msgspec

from portico.model.entries import Entry, guess_content_type
from portico.model.errors import InvalidCursor
from portico.model.timestamps import from_isos
from portico.providers.gcs.errors import ServiceError, translated
from portico.providers.gcs.responses import decode
from portico.providers.gcs.service import Request, Service
from portico.providers.objects.service import KeyPage
from portico.providers.wire.responses import check_count, check_sizes, malformed_response
from portico.providers.wire.transport import page_bytes

_FIELDS = "kind,nextPageToken,prefixes,items(name,size,updated,contentType)"
_FLAT_FIELDS = "kind,nextPageToken,items(name,size,updated,contentType,generation)"
_MAX_ENTRY_BYTES = 4096
"""Bytes of one entry in a listing: a name of 1,024 bytes, some of them escaped, and its properties."""
_LARGE = 2**20
_MAX_QUOTES = 256
"""Quotation marks per object in a listing, on average."""


class ListedObject(
    Entry, rename={"last_modified": "updated", "content_type": "contentType", "etag": "generation"}, gc=False
):
    """An object of a listing; the etag is the generation, if it was requested."""

    is_folder: bool = False
    last_modified: str | None = None
    content_type: str = ""
    etag: str | None = None


class ListResponse(msgspec.Struct, rename="camel"):
    # The response for an empty folder holds only its kind. Without it, any `{}` would pass for a listing.
    kind: Literal["storage#objects"]
    items: list[ListedObject] = []
    prefixes: list[str] = []
    next_page_token: str | None = None


# Not strict: sizes and generations are numbers that the service writes as strings.
_DECODER = msgspec.json.Decoder(ListResponse, strict=False)


async def list_objects(service: Service, prefix: str, size: int, token: str | None, *, flat: bool) -> KeyPage:
    """As `ObjectService.list_keys`."""
    params = {
        "fields": _FLAT_FIELDS if flat else _FIELDS,
        "maxResults": str(size),
        "prefix": prefix or None,
        "delimiter": None if flat else "/",
        "pageToken": token,
        "prettyPrint": "false",
    }
    most = page_bytes(size, _MAX_ENTRY_BYTES)
    with translated(prefix):
        try:
            response = await service.call(Request("GET", service.objects_url, params, at_most=most))
        except ServiceError as error:
            if error.status == 400 and token is not None and error.reason != "required":
                raise InvalidCursor(
                    "The storage no longer accepts this cursor. Start again without a cursor."
                ) from None
            error.missing_bucket = error.status == 404
            raise
    page = read_listing(response.body, size)
    if page.next_page_token is not None and page.next_page_token == token:
        raise malformed_response("the page token of the request as the next one: the listing would never end")
    return KeyPage([*page.items], page.prefixes, page.next_page_token or None)


def read_listing(body: bytes, asked: int) -> ListResponse:
    if len(body) > _LARGE and body.count(b'"') > (asked + 1) * _MAX_QUOTES:
        raise malformed_response("a listing with far more in it than was requested")
    page = decode(_DECODER, body)
    check_count(len(page.items) + len(page.prefixes), asked)
    check_sizes([-1 if item.size is None else item.size for item in page.items])
    try:
        moments = from_isos([item.last_modified or "" for item in page.items])
    except ValueError:
        raise malformed_response("a listing with an object that lacks its time") from None
    for item, modified in zip(page.items, moments, strict=True):
        item.last_modified = modified
        item.content_type = item.content_type or guess_content_type(item.name)
    return page
