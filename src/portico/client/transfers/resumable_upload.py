"""One large file on its way: what the gateway has is not sent again.

After a failure the gateway is asked how much it has, and gets the rest. The file is stored with its last part. A file that
is verified is sent in smaller parts, each with its checksum: the gateway takes a part only as a whole, and holds it in
memory until then.
"""

import hashlib
import os
import time
from base64 import b64encode
from dataclasses import dataclass, replace

from portico.client import files
from portico.client.auth.session import AuthSession
from portico.client.errors import (
    COMMON,
    ChecksumMismatch,
    ClientError,
    Forbidden,
    NotFound,
    OffsetMismatch,
    Temporary,
    TooLarge,
    UploadTakenOver,
)
from portico.client.files import OnConflict
from portico.client.http.effects import Concurrently, Operation, Response, blocking
from portico.client.paths import path_of
from portico.client.transfers.multipart import UploadItem, reported
from portico.client.transfers.progress import Meter, Progress, Received, Resumed
from portico.client.transfers.sources import BytesSource, FileSource
from portico.client.transfers.tus import (
    MAX_METADATA,
    PART,
    InParts,
    NotSupported,
    Part,
    PartSize,
    TusRequests,
    metadata_of,
    received,
)
from portico.client.transfers.upload_records import UnfinishedUpload, UploadRecord, UploadRecords

_RESTARTS = 3
"""How often a file is begun again whose upload has vanished."""


@dataclass(frozen=True, slots=True)
class UploadOptions:
    on_conflict: OnConflict | None = None
    verify: bool | int = False
    """Whether to verify content; a number: that of files of up to so many bytes."""
    progress: Progress | None = None
    stored: Received | None = None
    times: bool = False
    """Whether files keep their modification times."""
    receipts: bool = False
    resumable: "ResumableUploads | None" = None
    """Sends large files; without it, they are sent in one request."""
    resumed: Resumed | None = None

    def verifies(self, file: UploadItem) -> bool:
        if isinstance(self.verify, bool):
            return self.verify
        return file.source.size is not None and file.source.size <= self.verify

    @property
    def headers(self) -> dict[str, str]:
        """What the gateway is asked to say of the stored files."""
        return {"Prefer": "return=representation" if self.receipts else "return=representation; receipt=none"}


class ResumableUpload:
    def __init__(
        self,
        uploads: "ResumableUploads",
        record: UploadRecord | None,
        file: UploadItem,
        metadata: str,
        options: UploadOptions,
    ) -> None:
        assert isinstance(file.source, InParts)
        assert file.source.size is not None
        self._session = uploads.session
        self._requests = TusRequests(uploads.session)
        self._unfinished = uploads.unfinished
        self._record = record
        self._file = file
        self._source, self._size = file.source, file.source.size
        self._metadata = metadata
        self._options = options
        self._checked = options.verifies(file)
        """Whether each part has its checksum."""
        self.part = PartSize(uploads.most, checked=self._checked)
        self._meter = Meter(file.path, self._size, options.progress)
        self._id: str | None = None
        self._offset: int | None = None
        """How much the gateway has; None if it is to be asked."""
        self._resuming = False
        self.resumed = 0
        """How much the gateway had from an earlier run."""
        self._created = 0
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
                    self._id, expires = yield from self._requests.create(self._size, self._metadata)
                    self._created += 1
                    self._offset = reached = 0
                    yield from self._note(UnfinishedUpload(self._id, self._version, self._checked, expires))
                if self._offset is None:
                    end = Part(BytesSource(b""), 0, 0, self._meter, self._size)
                    response = yield from self._requests.ask(self._id, end, ending=self._ending)
                    self._offset = received(response, self._size)
                    if self._resuming and not (yield from self._can_resume(response)):
                        yield from self._forget()
                        continue
                    if self._offset > reached:
                        backoff.reset()
                    else:  # on a line that breaks often, less at a time arrives
                        self.part.shrink()
                else:
                    response = yield from self._append(self._id, self._offset)
                    self._offset = received(response, self._size)
                    if self._offset <= reached:
                        raise OffsetMismatch("The gateway received nothing of what was sent.")
                    failure = None
                    backoff.reset()
                    self.part.grow()
                reached = self._offset
                if self._offset == self._size:
                    yield from self._note(None)
                    return response
            except NotFound:
                # It has expired, or an administrator has ended it.
                if self._created >= _RESTARTS:
                    raise
                yield from self._forget()
            except TooLarge as error:
                if error.request_id or self.part.is_smallest:
                    raise
                # It comes from a proxy, which has passed on nothing.
                self.part.refuse()
            except (Temporary, OffsetMismatch, UploadTakenOver, ChecksumMismatch) as error:
                if failure is None or self._offset is not None:
                    failure = error  # rather than that of a HEAD, which cannot say what is wrong
                self._offset = None
                try:
                    yield from backoff.wait(error)
                except ClientError:
                    raise failure from None

    def abandon(self) -> Operation[None]:
        """End the upload, so that the gateway need not keep what it has. If that fails, it expires."""
        yield from self._note(None)
        if self._id is not None:
            yield from self._requests.end(self._id)
            self._id = None

    def _append(self, upload_id: str, offset: int) -> Operation[Response]:
        size = min(self.part.bytes, self._size - offset)
        self._ending = offset + size == self._size
        headers = self._options.headers if self._ending else {}
        if not self._checked:
            part = Part(self._source, offset, size, self._meter, offset)
            return (yield from self._requests.append(upload_id, part, headers, ending=self._ending))
        if self._ahead is None or self._ahead[:2] != (offset, size):
            yield from self._read(offset, size)
        assert self._ahead is not None
        _, _, content, headers["Upload-Checksum"] = self._ahead
        responses: list[Response] = []

        def send() -> Operation[None]:
            part = Part(content, 0, size, self._meter, offset)
            responses.append((yield from self._requests.append(upload_id, part, headers, ending=self._ending)))

        rest = min(size, self._size - offset - size)
        steps = [send(), self._read(offset + size, rest)] if rest else [send()]
        yield Concurrently(iter(steps), len(steps))
        return responses[0]

    def _read(self, offset: int, size: int) -> Operation[None]:
        def read() -> None:
            content = b"".join(self._source.part(offset, size))
            checksum = b64encode(hashlib.sha256(content).digest()).decode()
            self._ahead = offset, size, BytesSource(content), f"sha256 {checksum}"

        yield from blocking(read)

    def _recall(self) -> Operation[None]:
        """Take up an earlier upload of the same file; end one of another version of it."""
        record = self._record
        known = (yield from blocking(record.load)) if record else None
        if known is None:
            return
        if known.version == self._version and (known.checked or not self._checked):
            self._id = known.id
            self._resuming = True
            self._unfinished.add(self._file.path)
        else:
            yield from self._note(None)
            yield from self._requests.end(known.id)

    def _can_resume(self, response: Response) -> Operation[bool]:
        """Whether what an earlier run has sent is of use. It may have stored the file, which is gone since."""
        self._resuming = False
        offset = received(response, self._size)
        if offset == self._size:
            try:
                path = path_of(response.headers.get("content-location", "")) or self._file.path
                if (yield from files.stat(self._session, path)).size != self._size:
                    return False
            except (NotFound, Forbidden):
                return False
        self.resumed = offset
        if self._options.resumed and offset:
            self._options.resumed(self._file.path, offset, self._size)
        return True

    def _forget(self) -> Operation[None]:
        yield from self._note(None)
        self._id = self._offset = None
        self._resuming = False

    def _note(self, upload: UnfinishedUpload | None) -> Operation[None]:
        if record := self._record:
            yield from blocking(lambda: record.save(upload))
            (self._unfinished.add if upload else self._unfinished.discard)(self._file.path)

    @property
    def _version(self) -> str:
        """Of the content of the local file, and of what is said of it."""
        facts = self._source.version if isinstance(self._source, FileSource) else ()
        return hashlib.blake2b(repr((facts, self._metadata)).encode(), digest_size=16).hexdigest()


THRESHOLD = 16 * 1024 * 1024
"""Files of at least this size are sent in parts."""


class ResumableUploads:
    def __init__(self, session: AuthSession, records: UploadRecords) -> None:
        self.session = session
        self._records = records
        self._supported = True
        """Whether they have not been refused, by the gateway or by a proxy."""
        self.most = PART
        """The largest part that the proxies between here and the gateway let through, as far as is known."""
        self.unfinished: set[str] = set()
        """The paths of files that another call, or another run, can go on with."""

    def send(self, file: UploadItem, options: UploadOptions) -> Operation[UploadItem | None]:
        """Store a file; return it with its entry. None if it is to be sent in one request instead."""
        source, size = file.source, file.source.size
        if not self._supported or size is None or size < THRESHOLD or not isinstance(source, InParts):
            return None
        metadata = metadata_of(file, options.on_conflict)
        if len(metadata) > MAX_METADATA:
            return None
        record: UploadRecord | None = None
        if isinstance(source, FileSource):
            key = (file.path, os.path.abspath(source.path), options.on_conflict or "")
            record = yield from blocking(lambda: self._records.open(*key))
        upload = ResumableUpload(self, record, file, metadata, options)
        try:
            began = time.monotonic()
            response = yield from upload.send()
            sent = replace(file, sent=size, resumed=upload.resumed)
            (stored,) = reported([sent], response, time.monotonic() - began)
            self.most = min(self.most, upload.part.most)
            yield from self._complete(stored)
            return stored
        except NotSupported as answer:
            self._supported = self._supported and not answer.for_good
            yield from upload.abandon()
            return None
        except ClientError as error:
            if record is None or not isinstance(error, COMMON):
                yield from upload.abandon()
            raise
        finally:
            if record:
                yield from blocking(record.close)

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
