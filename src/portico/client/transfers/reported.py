"""What the response to an upload says of the stored files."""

from collections.abc import Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime

from portico.client.entries import Entry, entry_of, timestamp
from portico.client.errors import InvalidPath, NotAGateway
from portico.client.http.effects import Response
from portico.client.paths import clean, path_of, split
from portico.client.transfers.multipart import UploadItem


def reported(batch: list[UploadItem], response: Response, seconds: float) -> list[UploadItem]:
    """The batch with the entries that the gateway reports; an older gateway reports none."""
    entries: list[Entry] = []
    headers = response.headers
    try:
        if response.content and response.status in (200, 201):
            entries = [entry_of(item) for item in response.json()["content"]]
        elif path := path_of(headers.get("content-location", "")):
            entries = [_entry(path, batch[0].sent, headers)]
        for entry in entries:
            clean(entry.path)
    except (NotAGateway, InvalidPath, KeyError, TypeError):
        return batch
    if len(entries) != len(batch):
        return batch
    moment = _seconds(headers.get("date", ""))
    return [
        replace(file, entry=entry, seconds=seconds, stored_at=moment)
        for file, entry in zip(batch, entries, strict=True)
    ]


def _entry(path: str, size: int, headers: Mapping[str, str]) -> Entry:
    """The entry of a single file, as far as the headers of the response describe it."""
    return Entry(
        split(path)[1],
        path,
        is_folder=False,
        size=size,
        last_modified=timestamp(headers.get("x-modified")),
        etag=headers.get("etag"),
        digest=headers.get("repr-digest"),
    )


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
