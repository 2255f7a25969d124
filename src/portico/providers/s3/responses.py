"""Reading the SDK's responses about one object."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from portico import timestamps
from portico.entries import Entry
from portico.providers import modification_times
from portico.providers.modification_times import MTIME
from portico.providers.responses import etag_of, malformed_response, size_of


def entry_of(key: str, response: dict[str, Any], size: int | None = None) -> Entry:
    """The object that a GET or HEAD describes; `size` if it is not the length of the content."""
    try:
        written = timestamps.from_datetime(require(response, "LastModified"))
        modified = modification_times.read(response.get("Metadata", {}).get(MTIME)) or written
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
    )


def require(response: dict[str, Any], name: str) -> Any:
    """A field that every such response has."""
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
