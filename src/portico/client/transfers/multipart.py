"""Streams files as `multipart/form-data`."""

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from portico.client.entries import Entry, entry_of
from portico.client.errors import InvalidPath, NotAGateway
from portico.client.files import described
from portico.client.http.effects import Piece, Response
from portico.client.paths import clean, path_of, split
from portico.client.transfers.progress import Meter, Receipt
from portico.client.transfers.sources import Source

_SMALL = 64 * 1024
_AMBIGUOUS = re.compile("%(22|0D|0A)")
_MEDIA_TYPE = re.compile(r"[!#$&\-^_.+0-9A-Za-z]+/[!#$&\-^_.+0-9A-Za-z]+(\s*;[\x20-\x7e]*)?")


def digest_text(sha256: bytes) -> str:
    """As in `Repr-Digest` (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256).decode()}:"


@dataclass(slots=True)
class UploadItem:
    """A file to upload to a clean path."""

    path: str
    source: Source
    content_type: str | None = None
    sent: int = 0
    """How many bytes the last attempt has sent."""
    entry: Entry | None = None
    """The stored file, if the gateway reported it."""
    seconds: float = 0.0
    stored_at: float | None = None
    """Both as in `Receipt`."""
    sha256: bytes | None = None
    """Of what was sent, if it is to be verified."""
    modified: str | None = None
    """The time that the file is to have, as `X-Modified` is written."""
    resumed: int = 0

    def __post_init__(self) -> None:
        if self.content_type is not None and not _MEDIA_TYPE.fullmatch(self.content_type):
            raise ValueError(f"{self.content_type!r} is not a media type")

    @property
    def name(self) -> str:
        return split(self.path)[1]

    @property
    def receipt(self) -> Receipt:
        source = self.source
        return Receipt(self.path, self.entry, source.path, source.status, self.seconds, self.stored_at, self.resumed)

    @property
    def headers(self) -> dict[str, str]:
        """What is said of the file, beside its name: in the headers of its request, or of its part."""
        headers = {"Content-Type": self.content_type} if self.content_type else {}
        if self.modified:
            headers["X-Modified"] = self.modified
        if self.sha256:
            headers["Repr-Digest"] = digest_text(self.sha256)
        return headers


class _Upload:
    def __init__(self, files: Sequence[UploadItem]) -> None:
        self._files = files
        self.closed = False
        """Whether the end was sent: from then on the gateway may have stored the last file."""

    @property
    def replayable(self) -> bool:
        return all(file.source.replayable for file in self._files)

    @property
    def blocking(self) -> bool:
        return any(file.source.blocking for file in self._files)


class MultipartForm(_Upload):
    """Several files for one folder."""

    def __init__(self, files: Sequence[UploadItem]) -> None:
        super().__init__(files)
        boundary = secrets.token_hex(16)
        self._heads = [_part_head(boundary, file) for file in files]
        self._heads[0] = self._heads[0].lstrip()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.content_type = f"multipart/form-data; boundary={boundary}"

    @property
    def length(self) -> int | None:
        sizes = [file.source.size for file in self._files if file.source.size is not None]
        if len(sizes) < len(self._files):
            return None
        return sum(map(len, self._heads)) + sum(sizes) + len(self._tail)

    def __iter__(self) -> Iterator[Piece]:
        """Join small pieces: each yielded piece is sent by itself."""
        self.closed = False
        waiting: list[Piece] = []
        size = 0
        for piece in self._pieces():
            waiting.append(piece)
            size += len(piece)
            if size >= _SMALL:
                yield from waiting if len(piece) >= _SMALL else [b"".join(waiting)]
                waiting.clear()
                size = 0
        self.closed = True
        yield b"".join([*waiting, self._tail])

    def _pieces(self) -> Iterator[Piece]:
        for head, file in zip(self._heads, self._files, strict=True):
            yield head
            file.sent = 0
            for chunk in file.source.chunks():
                file.sent += len(chunk)
                yield chunk


def _part_head(boundary: str, file: UploadItem) -> bytes:
    name = file.name
    if _AMBIGUOUS.search(name):
        # Browsers write a quote as %22 without escaping the percent sign; `filename*` is unambiguous.
        disposition = f"filename*=UTF-8''{quote(name, safe='')}"
    else:
        disposition = f'filename="{name.replace(chr(34), "%22")}"'
    lines = [f"\r\n--{boundary}", f'Content-Disposition: form-data; name="data"; {disposition}']
    lines += [f"{field}: {value}" for field, value in file.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def reported(batch: list[UploadItem], response: Response, seconds: float) -> list[UploadItem]:
    """The batch with the entries that the gateway reports, if it reports them."""
    entries: list[Entry] = []
    headers = response.headers
    try:
        if response.content and response.status in (200, 201):
            entries = [entry_of(item) for item in response.json()["content"]]
        elif path := path_of(headers.get("content-location", "")):
            entries = [replace(described(path, response), size=batch[0].sent, content_type="")]
        for entry in entries:
            clean(entry.path)
    except (NotAGateway, InvalidPath, KeyError, TypeError):
        return batch
    if len(entries) != len(batch):
        return batch
    moment = seconds_of(headers.get("date", ""))
    return [
        replace(file, entry=entry, seconds=seconds, stored_at=moment)
        for file, entry in zip(batch, entries, strict=True)
    ]


def seconds_of(date: str) -> float | None:
    """A time in a header, in seconds since 1970; None if it is not valid."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


class FileBody(_Upload):
    def __init__(self, file: UploadItem, meter: Meter, *, hashed: bool = False) -> None:
        """With `hashed`, the SHA-256 is computed while it is sent, for the file's `sha256`."""
        super().__init__([file])
        self._file = file
        self._meter = meter
        self._hashed = hashed

    @property
    def length(self) -> int | None:
        return self._file.source.size

    def __iter__(self) -> Iterator[Piece]:
        """The last piece follows only when the source has ended well: with it, the gateway stores the file."""
        file, meter = self._file, self._meter
        digest = hashlib.sha256() if self._hashed else None
        self.closed, file.sent = False, 0
        meter.at(0)
        held: Piece = b""
        for chunk in file.source.chunks():
            if held:
                yield held
            meter.add(len(held))
            if digest:
                digest.update(chunk)
            file.sent += len(chunk)
            held = chunk
        if digest:
            file.sha256 = digest.digest()
        self.closed = True
        if held:
            yield held
        meter.add(len(held))
