"""The two ways in: one request for what fits into a part, a resumable session for the rest."""

import asyncio
from collections.abc import Sequence
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import msgspec
import structlog

from portico.entries import UNKNOWN_TYPE
from portico.errors import ProviderUnavailable
from portico.providers.answers import nonsense
from portico.providers.gcs.answers import MARK, OBJECT_FIELDS, ObjectAnswer, read_object
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.failures import FAILURES, ServiceError
from portico.providers.gcs.service import Answer, Patience, Request, Service
from portico.providers.parts import MIB, Part

CHUNK = 8 * MIB
"""Of a session; Google wants a multiple of 256 KiB."""
_CANCEL_SECONDS = 10
_BRIEF = 3
"""The part of the deadline that it takes at most to ask how much of a part has arrived."""

log = structlog.get_logger()


class Upload:
    """What is known of an upload whichever way it goes."""

    def __init__(self, url: str, key: str, content_type: str, *, replace: bool) -> None:
        self.url = url
        self.key = key
        self.content_type = content_type if _is_plain(content_type) else UNKNOWN_TYPE
        self.replace = replace
        self.mark = token_hex(8)

    def params(self, way: str, generation: int | None) -> dict[str, str | None]:
        """`generation` is that of the object which may be replaced; 0 if there must be none, None if any may."""
        return {
            "uploadType": way,
            "fields": OBJECT_FIELDS,
            "ifGenerationMatch": None if generation is None else str(generation),
        }

    def metadata(self, checksum: Checksum | None = None) -> bytes:
        known = {"name": self.key, "contentType": self.content_type, "metadata": {MARK: self.mark}}
        return msgspec.json.encode(known | (checksum.metadata if checksum else {}))


def single_request(upload: Upload, part: Part, checksum: Checksum, generation: int | None) -> Request:
    """Metadata and content in one request."""
    boundary = token_hex(16)
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode()
        + upload.metadata(checksum)
        + f"\r\n--{boundary}\r\nContent-Type: {upload.content_type}\r\n\r\n".encode()
    )
    return Request(
        "POST",
        upload.url,
        upload.params("multipart", generation),
        {"Content-Type": f"multipart/related; boundary={boundary}"},
        [head, *part.chunks, f"\r\n--{boundary}--\r\n".encode()],
    )


class Session:
    """A resumable upload: parts of one size in order, of which the service says how much it has."""

    def __init__(self, service: Service, address: str) -> None:
        self._service = service
        # The address is the permission: it outlives the token that it was got with, and must not be logged.
        self._address = address
        self._kept = 0
        self._checksum = Checksum()
        self._turn = asyncio.Lock()
        self._broken = False

    @classmethod
    async def begin(cls, service: Service, upload: Upload) -> "Session":
        request = Request(
            "POST",
            upload.url,
            upload.params("resumable", None if upload.replace else 0),
            {"Content-Type": "application/json; charset=UTF-8", "X-Upload-Content-Type": upload.content_type},
            [upload.metadata()],
        )
        answer = await service.call(request)  # a session that nobody knows of expires
        return cls(service, _session_address(service.endpoint, answer.headers.get("Location", "")))

    async def send(self, part: Part) -> ObjectAnswer | None:
        """Send a part after those before it; the object if it was the last one."""
        async with self._turn:  # taken in the order in which the parts came
            if self._broken:
                raise asyncio.CancelledError
            try:
                return await self._send(part)
            except BaseException:
                self._broken = True
                raise

    async def _send(self, part: Part) -> ObjectAnswer | None:
        start, end = self._kept, self._kept + part.size
        total = str(end) if part.last else "*"
        self._checksum.add(part.chunks)
        patience = Patience()
        in_doubt = silent = False
        while True:
            try:
                if in_doubt:
                    # After a silence not for as long again: whoever waits has waited already.
                    async with asyncio.timeout(self._service.timeout / _BRIEF if silent else None):
                        answer = await self._put((), f"bytes */{total}", part.last)
                else:
                    content = _behind(part.chunks, self._kept - start)
                    answer = await self._put(content, f"bytes {self._kept}-{end - 1}/{total}", part.last)
                if answer.status != 308:
                    return self._stored(answer, end if part.last else None)
                kept = _kept(answer)
                if not self._kept <= kept <= end:
                    raise nonsense("word of a resumable upload that lost what it had, or has too much")
                if kept == end and not part.last:
                    self._kept = kept
                    return None
                if kept > self._kept:
                    patience = Patience()
                elif not in_doubt or kept == end:
                    await patience.after(
                        nonsense("word of a resumable upload that makes no progress"), again=True
                    )
                self._kept = kept
                in_doubt = kept == end  # all is there but the end: say it again
            except FAILURES as error:
                # A service that went silent may have taken the bytes all the same.
                again = True if isinstance(error, TimeoutError) and not silent else None
                await patience.after(error, again=again)
                in_doubt, silent = True, isinstance(error, TimeoutError)

    def _stored(self, answer: Answer, end: int | None) -> ObjectAnswer:
        stored = read_object(answer.body)
        if stored.size != end or not self._checksum.fits(stored):
            raise nonsense("word of an object with another size or checksum than was sent")
        return stored

    async def _put(self, content: Sequence[bytes | memoryview], place: str, last: bool) -> Answer:
        headers = {"Content-Range": place, **(self._checksum.header if last else {})}
        request = Request("PUT", self._address, headers=headers, body=content, signed=False)
        try:
            return await self._service.once(request)
        except ServiceError as error:
            if error.status not in (404, 410):
                raise
            raise ProviderUnavailable(
                "The storage service lost the upload; send the file again.",
                retry_after=1,
                cause=f"Google Cloud Storage no longer knows a resumable upload ({error.status})",
            ) from None

    async def cancel(self) -> None:
        """Make the service forget what it has; if that fails, the session expires after a week, unseen."""
        request = Request("DELETE", self._address, signed=False)
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self._service.call(request)
        except FAILURES as error:
            # Its kind only: its text may hold the address.
            log.warning("upload-not-cancelled", provider="gcs", why=type(error).__name__)


def _session_address(endpoint: str, named: str) -> str:
    """Where the session is: whatever host the service names, content goes to the one that we were told to use."""
    own, there = urlsplit(endpoint), urlsplit(named)
    if not there.path.startswith("/"):
        raise nonsense("an answer to the start of a resumable upload that names no session")
    return urlunsplit((own.scheme, own.netloc, there.path, there.query, ""))


def _kept(answer: Answer) -> int:
    """How many bytes the service has: `Range: bytes=0-41` are 42, no range is none."""
    text = answer.headers.get("Range")
    if text is None:
        return 0
    first, _, last = text.removeprefix("bytes=").partition("-")
    if first != "0" or not (last.isascii() and last.isdigit()):
        raise nonsense("the range of a resumable upload that does not begin at 0")
    return int(last) + 1


def _behind(chunks: Sequence[bytes], count: int) -> list[bytes | memoryview]:
    """The chunks without their first `count` bytes."""
    rest: list[bytes | memoryview] = []
    for chunk in chunks:
        if count < len(chunk):
            rest.append(memoryview(chunk)[count:] if count else chunk)
        count = max(0, count - len(chunk))
    return rest


def _is_plain(content_type: str) -> bool:
    return content_type.isascii() and content_type.isprintable()
