"""Requests of the tus protocol 1.0 (https://tus.io): one upload is created, asked for its offset, and gets its parts."""

import time
from base64 import b64encode
from collections.abc import Iterator

from portico.client.auth.session import AuthSession
from portico.client.errors import (
    ClientError,
    MethodNotAllowed,
    NotAGateway,
    NotFound,
    TooManyRequests,
    TusVersion,
    UploadTakenOver,
)
from portico.client.files import OnConflict
from portico.client.http.effects import Operation, Piece, Request, Response
from portico.client.paths import split
from portico.client.transfers.multipart import UploadItem, seconds_of
from portico.client.transfers.progress import Meter
from portico.client.transfers.sources import BytesSource, FileSource, StreamSource

PART = 64 * 1024 * 1024
"""Below the limit of usual proxies, and large enough for the time between parts not to count."""
CHECKED_PART = 8 * 1024 * 1024
"""What the gateway holds in memory until it has compared the checksum."""
SMALLEST_PART = 1024 * 1024


class PartSize:
    """Smaller after failures, and larger again after successes."""

    def __init__(self, most: int, *, checked: bool) -> None:
        self.most = most
        """The largest part that was not refused."""
        self._checked = checked
        self.bytes = self._largest

    @property
    def _largest(self) -> int:
        return min(self.most, CHECKED_PART) if self._checked else self.most

    @property
    def is_smallest(self) -> bool:
        return self.bytes <= SMALLEST_PART

    def grow(self) -> None:
        self.bytes = min(self.bytes * 2, self._largest)

    def shrink(self) -> None:
        self.bytes = max(self.bytes // 2, SMALLEST_PART)

    def refuse(self) -> None:
        """Note that a proxy lets no part of this size through."""
        self.shrink()
        self.most = self.bytes


MAX_METADATA = 4096

_UPLOADS = "/backend/1.0.0/uploads"
_VERSION = {"Tus-Resumable": "1.0.0"}
_MEDIA_TYPE = "application/offset+octet-stream"
_LIFETIME = 7 * 24 * 3600.0
"""Of an upload whose gateway does not say, in seconds."""

InParts = BytesSource | FileSource | StreamSource
"""A source that can be read from any offset."""


class NotSupported(Exception):
    """The file has to be sent in one request; if `for_good`, all others, too."""

    def __init__(self, *, for_good: bool) -> None:
        self.for_good = for_good


class Part:
    replayable = True

    def __init__(self, source: InParts, start: int, size: int, meter: Meter, offset: int) -> None:
        """`offset` is where the part begins in the file."""
        self._source = source
        self._start = start
        self._meter = meter
        self.offset = offset
        self.length = size
        self.blocking = source.blocking

    def __iter__(self) -> Iterator[Piece]:
        self._meter.at(self.offset)
        for piece in self._source.part(self._start, self.length):
            yield piece
            self._meter.add(len(piece))


class TusRequests:
    """The requests for one file."""

    def __init__(self, session: AuthSession) -> None:
        self._session = session
        self._accepted = False
        """Whether the gateway has received the last part that was sent."""

    def create(self, size: int, metadata: str) -> Operation[tuple[str, float]]:
        """Begin an upload; return its id, and when it expires, in seconds since 1970."""
        headers = {**_VERSION, "Upload-Length": str(size), "Upload-Metadata": metadata}
        try:
            response = yield from self._session.request_once(Request("POST", _UPLOADS, headers))
        except (NotFound, MethodNotAllowed, TusVersion):
            raise NotSupported(for_good=True) from None
        except TooManyRequests:  # the user has too many unfinished ones
            raise NotSupported(for_good=False) from None
        except ClientError as error:
            if error.status == 501:
                raise NotSupported(for_good=True) from None
            raise
        upload_id = response.headers.get("location", "").rstrip("/").rpartition("/")[2]
        if not upload_id.isalnum():
            raise NotAGateway("The response to a new upload has no address.")
        return upload_id, seconds_of(response.headers.get("upload-expires", "")) or time.time() + _LIFETIME

    def ask(self, upload_id: str, end: Part, *, ending: bool) -> Operation[Response]:
        """Ask how much has arrived. A file that has arrived as a whole is stored; `end` is the empty part at its end."""
        try:
            request = Request("HEAD", f"{_UPLOADS}/{upload_id}", dict(_VERSION), long_running=ending)
            return (yield from self._session.request_once(request))
        except ClientError as error:
            if error.status != 409 or isinstance(error, UploadTakenOver):
                raise
            # A conflict in storing the file. A response to HEAD has no sentence.
            return (yield from self.append(upload_id, end, {}, ending=ending))

    def append(self, upload_id: str, part: Part, headers: dict[str, str], *, ending: bool) -> Operation[Response]:
        """Send a part. `ending`: the gateway may be about to store the file, which can take long."""
        headers = {**_VERSION, "Content-Type": _MEDIA_TYPE, "Upload-Offset": str(part.offset), **headers}
        request = Request("PATCH", f"{_UPLOADS}/{upload_id}", headers, part, long_running=ending)
        request.expects_refusal = not self._accepted
        self._accepted = False
        try:
            response = yield from self._session.request_once(request)
        except MethodNotAllowed:
            raise NotSupported(for_good=True) from None  # by a proxy
        self._accepted = True
        return response

    def end(self, upload_id: str) -> Operation[None]:
        """Give an upload up. If that fails, it expires."""
        try:
            request = Request("DELETE", f"{_UPLOADS}/{upload_id}", dict(_VERSION))
            yield from self._session.request_once(request)
        except ClientError:
            pass


def metadata_of(file: UploadItem, on_conflict: OnConflict | None) -> str:
    """What is said of a file when its upload is created."""
    folder, name = split(file.path)
    given = {
        "filename": name,
        "folder": folder,
        "filetype": file.content_type,
        "onConflict": on_conflict,
        "modified": file.modified,
    }
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in given.items() if value is not None)


def received(response: Response, size: int) -> int:
    """How much of a file of this size has arrived."""
    text = response.headers.get("upload-offset", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= size):
        raise NotAGateway("The response doesn't say how much of the upload has arrived.")
    return int(text)
