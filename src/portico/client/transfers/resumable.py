"""Uploads of large files in parts, by the tus protocol: what the gateway has is not sent again.

After a failure the gateway is asked how much it has (`HEAD`), and gets the rest (`PATCH`). The file is stored with its last
part. A file that is verified is sent in smaller parts, each with its checksum: the gateway takes a part only as a whole,
and holds it in memory until then.
"""

import hashlib
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

from portico.client import files
from portico.client.auth.session import AuthSession
from portico.client.errors import (
    COMMON,
    ChecksumMismatch,
    ClientError,
    Forbidden,
    MethodNotAllowed,
    NotAGateway,
    NotFound,
    OffsetMismatch,
    Temporary,
    TooLarge,
    TooManyRequests,
    TusVersion,
    UploadTakenOver,
)
from portico.client.files import OnConflict
from portico.client.http.effects import Concurrently, Operation, Piece, Request, Response, blocking
from portico.client.paths import path_of, split
from portico.client.transfers.multipart import UploadItem
from portico.client.transfers.progress import Meter, Progress
from portico.client.transfers.reported import reported
from portico.client.transfers.sources import BytesSource, FileSource, StreamSource
from portico.client.transfers.upload_records import UnfinishedUpload, UploadRecord, UploadRecords

THRESHOLD = 16 * 1024 * 1024
"""Files of at least this size are sent in parts."""
PART = 64 * 1024 * 1024
"""Below the limit of usual proxies, and large enough for the time between parts not to count."""
CHECKED_PART = 8 * 1024 * 1024
"""What the gateway holds in memory until it has compared the checksum."""
SMALLEST_PART = 1024 * 1024

_UPLOADS = "/backend/1.0.0/uploads"
_VERSION = {"Tus-Resumable": "1.0.0"}
_MEDIA_TYPE = "application/offset+octet-stream"
_MAX_METADATA = 4096
_LIFETIME = 7 * 24 * 3600.0
"""Of an upload whose gateway does not say, in seconds."""
_RESTARTS = 3
"""How often a file is begun again whose upload has vanished."""

Resumed = Callable[[str, int, int], None]
"""Called with the path, the bytes that the gateway has from an earlier run, and the size, from any thread."""

_InParts = BytesSource | FileSource | StreamSource


@dataclass(frozen=True, slots=True)
class Terms:
    """How a file is to be sent."""

    on_conflict: OnConflict | None = None
    checked: bool = False
    """Whether each part has its checksum."""
    progress: Progress | None = None
    resumed: Resumed | None = None
    prefer: str = ""
    """What the gateway is asked to say of the stored file, in the `Prefer` header."""


class ResumableUploads:
    """The uploads in parts of one client."""

    def __init__(self, session: AuthSession, records: UploadRecords) -> None:
        self.session = session
        self._records = records
        self._supported = True
        """Whether the gateway is not known to lack them, as older ones do."""
        self.part = PART
        """The largest part that the proxies between here and the gateway let through, as far as is known."""
        self.unfinished: set[str] = set()
        """The paths of files that another call, or another run, can go on with."""

    def send(self, file: UploadItem, terms: Terms) -> Operation[UploadItem | None]:
        """Store a file; return it with its entry. None if it is to be sent in one request instead."""
        source, size = file.source, file.source.size
        if not self._supported or size is None or size < THRESHOLD or not isinstance(source, _InParts):
            return None
        metadata = _metadata(file, terms)
        if len(metadata) > _MAX_METADATA:
            return None
        record: UploadRecord | None = None
        if isinstance(source, FileSource):
            key = (file.path, os.path.abspath(source.path), terms.on_conflict or "")
            record = yield from blocking(lambda: self._records.open(*key))
        sender = _Sender(self, record, file, source, size, metadata, terms)
        try:
            began = time.monotonic()
            response = yield from sender.send()
            sent = replace(file, sent=size, resumed=sender.resumed)
            (stored,) = reported([sent], response, time.monotonic() - began)
            self.part = min(self.part, sender.most)
            yield from self._complete(stored)
            return stored
        except _NotSupported as answer:
            self._supported = self._supported and not answer.for_good
            return None
        except ClientError as error:
            if record is None or not isinstance(error, COMMON):
                yield from sender.abandon()
            raise
        finally:
            if record:
                record.close()

    def _complete(self, stored: UploadItem) -> Operation[None]:
        """Ask for the entry, if the response has only its path: it was one to HEAD, after another was lost."""
        entry = stored.entry
        if entry is None or entry.last_modified is not None:
            return
        try:
            found = yield from files.stat(self.session, entry.path)
            if found.size == entry.size:
                stored.entry = found
        except ClientError:  # such as of a user who may not list files
            pass


class _NotSupported(Exception):
    def __init__(self, *, for_good: bool) -> None:
        self.for_good = for_good


class _Sender:
    """One file on its way."""

    def __init__(
        self,
        uploads: ResumableUploads,
        record: UploadRecord | None,
        file: UploadItem,
        source: _InParts,
        size: int,
        metadata: str,
        terms: Terms,
    ) -> None:
        self._session = uploads.session
        self._unfinished = uploads.unfinished
        self._record = record
        self._file = file
        self._source = source
        self._size = size
        self._metadata = metadata
        self._terms = terms
        self._meter = Meter(file.path, size, terms.progress)
        self._id: str | None = None
        self._offset: int | None = None
        """How much the gateway has; None if it is to be asked."""
        self.most = uploads.part
        """The largest part that was not refused."""
        self._part = self._largest
        self._resuming = False
        self.resumed = 0
        """How much the gateway had from an earlier run."""
        self._created = 0
        self._accepted = False
        """Whether the gateway has received the last part that was sent."""
        self._ending = True
        """Whether the gateway may be about to store the file, which can take long. Else a silent request is given up: the
        next one takes over."""
        self._ahead: tuple[int, int, BytesSource, str] | None = None
        """The next part, read while the one before it is sent: its offset, size, content and checksum."""

    def send(self) -> Operation[Response]:
        """Send the file; return the response that reports it stored."""
        yield from self._recall()
        backoff = self._session.backoff()
        reached = -1
        failure: ClientError | None = None
        while True:
            try:
                if self._id is None:
                    yield from self._create()
                    reached = 0
                if self._offset is None:
                    response = yield from self._ask()
                    self._offset = self._received(response)
                    if self._resuming and not (yield from self._can_resume(response)):
                        self._forget()
                        continue
                    if self._offset > reached:
                        backoff.reset()
                    else:  # on a line that breaks often, less at a time arrives
                        self._part = max(self._part // 2, SMALLEST_PART)
                else:
                    response = yield from self._append(self._offset)
                    self._offset = self._received(response)
                    if self._offset <= reached:
                        raise OffsetMismatch("The gateway has received nothing of what was sent to it.")
                    failure = None
                    backoff.reset()
                    self._part = min(self._part * 2, self._largest)
                reached = self._offset
                if self._offset == self._size:
                    self._note(None)
                    return response
            except NotFound:
                # It has expired, or an administrator has ended it.
                if self._created >= _RESTARTS:
                    raise
                self._forget()
            except TooLarge as error:
                if error.request_id or self._part <= SMALLEST_PART:
                    raise
                # It comes from a proxy, which has passed on nothing.
                self.most = self._part = max(self._part // 2, SMALLEST_PART)
            except (Temporary, OffsetMismatch, UploadTakenOver, ChecksumMismatch) as error:
                if failure is None or self._offset is not None:
                    failure = error  # rather than that of a HEAD, which cannot say what is wrong
                self._offset = None
                try:
                    yield from backoff.wait(error)
                except ClientError:
                    raise failure from None

    @property
    def _largest(self) -> int:
        return min(self.most, CHECKED_PART) if self._terms.checked else self.most

    def abandon(self) -> Operation[None]:
        """End the upload, so that the gateway need not keep what it has. If that fails, it expires."""
        self._note(None)
        if self._id is not None:
            yield from self._end(self._id)
            self._id = None

    # The requests

    def _create(self) -> Operation[None]:
        headers = {**_VERSION, "Upload-Length": str(self._size), "Upload-Metadata": self._metadata}
        try:
            response = yield from self._session.request_once(Request("POST", _UPLOADS, headers))
        except (NotFound, MethodNotAllowed, TusVersion):
            raise _NotSupported(for_good=True) from None
        except TooManyRequests:  # the user has too many unfinished ones
            raise _NotSupported(for_good=False) from None
        except ClientError as error:
            if error.status == 501:
                raise _NotSupported(for_good=True) from None
            raise
        self._created += 1
        self._id = response.headers.get("location", "").rstrip("/").rpartition("/")[2]
        if not self._id.isalnum():
            raise NotAGateway("The response to a new upload has no address.")
        self._offset = 0
        expires = _moment(response.headers.get("upload-expires")) or time.time() + _LIFETIME
        self._note(UnfinishedUpload(self._id, self._version, self._terms.checked, expires))

    def _ask(self) -> Operation[Response]:
        try:
            return (yield from self._session.request_once(self._request("HEAD", _VERSION)))
        except ClientError as error:
            if error.status != 409 or isinstance(error, UploadTakenOver):
                raise
            # A conflict in storing the file. A response to HEAD has no sentence, and that of an older gateway no code.
            headers = {**_VERSION, "Content-Type": _MEDIA_TYPE, "Upload-Offset": str(self._size)}
            return (yield from self._patch(headers, _Part(BytesSource(b""), 0, 0, self._meter, self._size)))

    def _append(self, offset: int) -> Operation[Response]:
        size = min(self._part, self._size - offset)
        self._ending = offset + size == self._size
        headers = {
            **_VERSION,
            "Content-Type": _MEDIA_TYPE,
            "Upload-Offset": str(offset),
        }
        if self._ending and self._terms.prefer:
            headers["Prefer"] = self._terms.prefer
        if not self._terms.checked:
            return (yield from self._patch(headers, _Part(self._source, offset, size, self._meter, offset)))
        if self._ahead is None or self._ahead[:2] != (offset, size):
            yield from self._read(offset, size)
        assert self._ahead is not None
        _, _, content, headers["Upload-Checksum"] = self._ahead
        responses: list[Response] = []

        def send() -> Operation[None]:
            body = _Part(content, 0, size, self._meter, offset)
            responses.append((yield from self._patch(headers, body)))

        rest = min(size, self._size - offset - size)
        steps = [send(), self._read(offset + size, rest)] if rest else [send()]
        yield Concurrently(iter(steps), len(steps))
        return responses[0]

    def _patch(self, headers: dict[str, str], body: "_Part") -> Operation[Response]:
        request = self._request("PATCH", headers)
        request.body = body
        request.expects_refusal = not self._accepted
        self._accepted = False
        try:
            response = yield from self._session.request_once(request)
        except MethodNotAllowed:
            yield from self.abandon()
            raise _NotSupported(for_good=True) from None  # by a proxy
        self._accepted = True
        return response

    def _request(self, method: str, headers: dict[str, str]) -> Request:
        return Request(method, f"{_UPLOADS}/{self._id}", dict(headers), long_running=self._ending)

    def _read(self, offset: int, size: int) -> Operation[None]:
        def read() -> None:
            content = b"".join(self._source.part(offset, size))
            checksum = b64encode(hashlib.sha256(content).digest()).decode()
            self._ahead = offset, size, BytesSource(content), f"sha256 {checksum}"

        yield from blocking(read)

    def _end(self, upload_id: str) -> Operation[None]:
        try:
            request = Request("DELETE", f"{_UPLOADS}/{upload_id}", dict(_VERSION))
            yield from self._session.request_once(request)
        except ClientError:
            pass

    # What is known of the upload

    def _recall(self) -> Operation[None]:
        """Take up an earlier upload of the same file; end one of another version of it."""
        record = self._record
        known = (yield from blocking(record.load)) if record else None
        if known is None:
            return
        if known.version == self._version and (known.checked or not self._terms.checked):
            self._id = known.id
            self._resuming = True
            self._unfinished.add(self._file.path)
        else:
            self._note(None)
            yield from self._end(known.id)

    def _can_resume(self, response: Response) -> Operation[bool]:
        """Whether what an earlier run has sent is of use. It may have stored the file, which is gone since."""
        self._resuming = False
        offset = self._received(response)
        if offset == self._size:
            try:
                path = _stored_path(response) or self._file.path
                return (yield from files.stat(self._session, path)).size == self._size
            except (NotFound, Forbidden):
                return False
        self.resumed = offset
        if self._terms.resumed and offset:
            self._terms.resumed(self._file.path, offset, self._size)
        return True

    def _received(self, response: Response) -> int:
        text = response.headers.get("upload-offset", "")
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= self._size):
            raise NotAGateway("The response does not say how much of the upload has arrived.")
        return int(text)

    def _forget(self) -> None:
        self._note(None)
        self._id = self._offset = None
        self._resuming = False

    def _note(self, upload: UnfinishedUpload | None) -> None:
        if self._record:
            self._record.save(upload)
            (self._unfinished.add if upload else self._unfinished.discard)(self._file.path)

    @property
    def _version(self) -> str:
        """Of the content of the local file, and of what is said of it."""
        facts = self._source.version if isinstance(self._source, FileSource) else ()
        return hashlib.blake2b(repr((facts, self._metadata)).encode(), digest_size=16).hexdigest()


class _Part:
    """A part of a source as the body of a request."""

    replayable = True

    def __init__(self, source: _InParts, start: int, size: int, meter: Meter, offset: int) -> None:
        """`offset` is where the part begins in the file."""
        self._source = source
        self._start = start
        self._meter = meter
        self._offset = offset
        self.length = size
        self.blocking = source.blocking

    def __iter__(self) -> Iterator[Piece]:
        self._meter.at(self._offset)
        for piece in self._source.part(self._start, self.length):
            yield piece
            self._meter.add(len(piece))


def _metadata(file: UploadItem, terms: Terms) -> str:
    folder, name = split(file.path)
    given = {
        "filename": name,
        "folder": folder,
        "filetype": file.content_type,
        "onConflict": terms.on_conflict,
        "modified": file.modified,
    }
    return ",".join(
        f"{key} {b64encode(value.encode()).decode()}" for key, value in given.items() if value is not None
    )


def _stored_path(response: Response) -> str | None:
    """The path of the stored file."""
    return path_of(response.headers.get("content-location", ""))


def _moment(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except ValueError:
        return None
