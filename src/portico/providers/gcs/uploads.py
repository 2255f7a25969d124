"""Uploads: one request for what fits into a part, otherwise a resumable session."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import msgspec
import structlog

from portico.model.entries import UNKNOWN_TYPE
from portico.model.errors import PorticoError, ProviderUnavailable, already_exists, changed
from portico.providers.contract.uploads import KeptFile, over_kept
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.errors import FAILURES, ServiceError, translated
from portico.providers.gcs.responses import GSUTIL_MTIME, OBJECT_FIELDS, ObjectResource, read_object
from portico.providers.gcs.service import Backoff, Request, Response, Service
from portico.providers.multipart.parts import LOOKUP_FRACTION, MARK, MIB, Parts, UploadPart
from portico.providers.objects.service import MTIME, as_rfc3339, name_of
from portico.providers.wire.responses import malformed_response

PART_BYTES = 8 * MIB
"""Of a resumable upload; the service requires a multiple of 256 KiB."""
_CANCEL_SECONDS = 10
_LOST = (404, 410)
"""What the service answers about a session that it does not know."""

log = structlog.get_logger()


class ObjectUpload:
    """What both kinds of upload need to know."""

    def __init__(
        self,
        key: str,
        content_type: str,
        *,
        replace: bool,
        if_match: str | None = None,
        modified: datetime | None = None,
        mark: str | None = None,
    ) -> None:
        """`if_match`: the generation of the only version that is replaced."""
        self.key = key
        self.content_type = content_type if _is_plain(content_type) else UNKNOWN_TYPE
        self.modified = modified
        self.mark = mark or token_hex(8)
        self.replace = replace
        self.if_match = if_match
        self.replaces(replace, if_match)

    def replaces(self, replace: bool, if_match: str | None) -> None:
        self.generation = None if replace else 0
        """Of the object that may be replaced; 0 if it must not exist, None for any."""
        if if_match is not None:
            if not re.fullmatch("[1-9][0-9]{0,18}", if_match):
                raise changed(name_of(self.key))
            self.generation = int(if_match)

    def refusal(self) -> PorticoError:
        """What it means that the condition is not met."""
        return changed(name_of(self.key)) if self.generation else already_exists(name_of(self.key))

    def params(self, kind: str, generation: int | None) -> dict[str, str | None]:
        """`generation`: of the object that may be replaced; 0 if it must not exist, None for any."""
        return {
            "uploadType": kind,
            "fields": OBJECT_FIELDS,
            "ifGenerationMatch": None if generation is None else str(generation),
        }

    def metadata(self, checksum: Checksum | None = None) -> bytes:
        custom = {MARK: self.mark}
        if self.modified is not None:
            seconds = math.floor(self.modified.timestamp())
            custom |= {MTIME: as_rfc3339(self.modified), GSUTIL_MTIME: str(seconds)}
        known = {"name": self.key, "contentType": self.content_type, "metadata": custom}
        return msgspec.json.encode(known | (checksum.metadata if checksum else {}))


async def insert(
    service: Service, upload: ObjectUpload, part: UploadPart, kept: KeptFile | None = None
) -> ObjectResource:
    """Store an object by one request.

    If the response is lost, a look-up shows whether the object is ours. If it is not, the next attempt replaces
    only the version that was found, so that a delayed first attempt cannot undo another upload.
    """

    async def over(replace: bool, if_match: str | None) -> ObjectResource:
        upload.replaces(replace, if_match)
        with storing(upload):
            return await _insert(service, upload, part)

    return await over_kept(kept, name_of(upload.key), upload.replace, upload.if_match, over)


async def _insert(service: Service, upload: ObjectUpload, part: UploadPart) -> ObjectResource:
    checksum = Checksum()
    checksum.add(part.chunks)
    generation = upload.generation
    backoff = Backoff()
    in_doubt = False
    while True:
        try:
            response = await service.once(_single_request(service, upload, part, checksum, generation))
            return read_object(response.body)
        except FAILURES as error:
            superseded = in_doubt and isinstance(error, ServiceError) and error.status == 412
            if isinstance(error, ServiceError) and not (error.temporary or superseded):
                raise
            lost = error
        in_doubt = True
        found = await service.find(upload.key, service.timeout / LOOKUP_FRACTION)
        if found and found.mark == upload.mark:
            return found
        current = found.generation if found else 0
        if upload.generation not in (None, current):
            raise upload.refusal()
        generation = current
        await backoff.after(lost, again=superseded or None)


def _single_request(
    service: Service, upload: ObjectUpload, part: UploadPart, checksum: Checksum, generation: int | None
) -> Request:
    """Metadata and content in one request."""
    boundary = token_hex(16)
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode()
        + upload.metadata(checksum)
        + f"\r\n--{boundary}\r\nContent-Type: {upload.content_type}\r\n\r\n".encode()
    )
    return Request(
        "POST",
        service.uploads_url,
        upload.params("multipart", generation),
        {"Content-Type": f"multipart/related; boundary={boundary}"},
        [head, *part.chunks, f"\r\n--{boundary}--\r\n".encode()],
    )


class SessionLost(ProviderUnavailable):
    """The service no longer knows a session: it expired, was cancelled or has failed."""


class ResumableSession:
    """A resumable upload: parts in order. The service reports how much it has."""

    def __init__(self, service: Service, address: str, kept: int = 0, checksum: Checksum | None = None) -> None:
        """`kept` and `checksum`: how many bytes another process has sent, and their checksum."""
        self._service = service
        # It grants access and outlives the token, so it must not be logged.
        self.address = address
        self.kept = kept
        """How many bytes were sent. After a resumption, the service may have more, and ignores them."""
        self.checksum = checksum or Checksum()
        self._resumed = checksum is not None
        self.before_last: Callable[[], Awaitable[None]] | None = None
        """Awaited when only the last part has to be sent: the condition of a session is that of its beginning."""
        self._order = asyncio.Lock()
        self._broken = False

    @classmethod
    async def begin(cls, service: Service, upload: ObjectUpload) -> "ResumableSession":
        request = Request(
            "POST",
            service.uploads_url,
            upload.params("resumable", upload.generation),
            {"Content-Type": "application/json; charset=UTF-8", "X-Upload-Content-Type": upload.content_type},
            [upload.metadata()],
        )
        response = await service.call(request)  # a session whose response was lost expires
        return cls(service, _session_address(service.endpoint, response.headers.get("Location", "")))

    async def send(self, part: UploadPart) -> ObjectResource | None:
        """Send a part after all previous ones. Returns the object after the last one."""
        async with self._order:  # acquired in the order of the parts
            if self._broken:
                raise asyncio.CancelledError
            try:
                if part.last and self.before_last:
                    await self.before_last()
                return await self._send(part)
            except BaseException:
                self._broken = True
                raise

    async def _send(self, part: UploadPart) -> ObjectResource | None:
        start, end = self.kept, self.kept + part.size
        total = str(end) if part.last else "*"
        self.checksum.add(part.chunks)
        backoff = Backoff()
        in_doubt, silent = not part.size, False
        while True:
            try:
                if in_doubt:
                    # After a timeout, not for as long again: the client has waited already.
                    async with asyncio.timeout(self._service.timeout / LOOKUP_FRACTION if silent else None):
                        response = await self._put((), f"bytes */{total}", part.last)
                else:
                    content = _skip(part.chunks, self.kept - start)
                    response = await self._put(content, f"bytes {self.kept}-{end - 1}/{total}", part.last)
                if response.status != 308:
                    return self._stored(response, end if part.last else None)
                kept = _kept(response)
                if self._resumed and not part.last:
                    kept = min(kept, end)
                if not self.kept <= kept <= end:
                    raise malformed_response("an inconsistent offset of a resumable upload")
                if kept == end and not part.last:
                    self.kept = kept
                    return None
                if kept > self.kept:
                    backoff = Backoff()
                elif not in_doubt or kept == end:
                    await backoff.after(malformed_response("a resumable upload that makes no progress"), again=True)
                self.kept = kept
                in_doubt = kept == end  # everything is stored but not committed: send the end again
            except FAILURES as error:
                # A service that timed out may have stored the bytes.
                again = True if isinstance(error, TimeoutError) and not silent else None
                await backoff.after(error, again=again)
                in_doubt, silent = True, isinstance(error, TimeoutError)

    def _stored(self, response: Response, end: int | None) -> ObjectResource:
        stored = read_object(response.body)
        if stored.size != end or not self.checksum.matches(stored):
            raise malformed_response("an object with another size or checksum than was sent")
        return stored

    async def _put(self, content: Sequence[bytes | memoryview], content_range: str, last: bool) -> Response:
        headers = {"Content-Range": content_range, **(self.checksum.header if last else {})}
        request = Request("PUT", self.address, headers=headers, body=content, signed=False)
        try:
            return await self._service.once(request)
        except ServiceError as error:
            if error.status not in _LOST:
                raise
            raise SessionLost(
                "The storage lost the upload. Send the file again.",
                retry_after=1,
                cause=f"Google Cloud Storage no longer knows a resumable upload ({error.status})",
            ) from None

    async def cancel(self) -> None:
        """Discard what was uploaded. One of `FAILURES` if the session, which is invisible, may still be there."""
        try:
            await self._service.call(Request("DELETE", self.address, signed=False), _CANCEL_SECONDS)
        except ServiceError as error:
            if error.status not in _LOST:
                raise


@contextmanager
def storing(upload: ObjectUpload) -> Iterator[None]:
    """As `translated`, where 412 means that the object may not be replaced, and 404 that the bucket does not exist."""
    with translated(name_of(upload.key)):
        try:
            yield
        except ServiceError as error:
            if error.status == 412:
                raise upload.refusal() from None
            error.missing_bucket = error.status == 404
            raise


async def upload_parts(
    service: Service, upload: ObjectUpload, parts: Parts, kept: KeptFile | None = None
) -> ObjectResource:
    """Store an object by a resumable upload."""
    with storing(upload):
        session = await ResumableSession.begin(service, upload)
    session.before_last = kept.prepare if kept else None

    async def send(part: UploadPart) -> ObjectResource | None:
        with storing(upload):  # not around everything: errors of the stream are not the service's
            return await session.send(part)

    try:
        responses = await parts.send(send)
    except BaseException:
        await asyncio.shield(_try_to_cancel(session))
        raise
    stored = responses[-1]
    assert stored is not None
    return stored


async def _try_to_cancel(session: ResumableSession) -> None:
    """The error that is being handled says more. What is left expires after a week."""
    try:
        await session.cancel()
    except FAILURES as error:
        # Only the type: the message may contain the address.
        log.warning("upload-not-cancelled", provider="gcs", why=type(error).__name__)


def _session_address(endpoint: str, named: str) -> str:
    """The address of the session, always at the configured endpoint, whatever host the service names."""
    own, there = urlsplit(endpoint), urlsplit(named)
    if not there.path.startswith("/"):
        raise malformed_response("a response to the start of a resumable upload that names no session")
    return urlunsplit((own.scheme, own.netloc, there.path, there.query, ""))


def _kept(response: Response) -> int:
    """How many bytes the service has: `Range: bytes=0-41` means 42, no range means none."""
    text = response.headers.get("Range")
    if text is None:
        return 0
    first, _, last = text.removeprefix("bytes=").partition("-")
    if first != "0" or not (last.isascii() and last.isdigit()):
        raise malformed_response("the range of a resumable upload that does not begin at 0")
    return int(last) + 1


def _skip(chunks: Sequence[bytes], count: int) -> list[bytes | memoryview]:
    """The chunks without the first `count` bytes."""
    rest: list[bytes | memoryview] = []
    for chunk in chunks:
        if count < len(chunk):
            rest.append(memoryview(chunk)[count:] if count else chunk)
        count = max(0, count - len(chunk))
    return rest


def _is_plain(content_type: str) -> bool:
    return content_type.isascii() and content_type.isprintable()
