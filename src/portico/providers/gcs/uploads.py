"""Uploads, resumable or not: one request for what fits into a part, otherwise a session of the service.

A session takes parts in order and lives for a week. Bytes that the service has already are sent again if a process died
before it saved them: the service ignores them. The checksum of everything is part of the state, and the service verifies
it at the end.
"""

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from secrets import token_hex
from urllib.parse import urlsplit, urlunsplit

import msgspec
import structlog

from portico.model.entries import UNKNOWN_TYPE, Entry
from portico.model.errors import PorticoError, ProviderUnavailable, already_exists, changed, not_found
from portico.providers.gcs.checksums import Checksum
from portico.providers.gcs.errors import FAILURES, ServiceError, translated
from portico.providers.gcs.responses import GSUTIL_MTIME, OBJECT_FIELDS, ObjectResource, read_object
from portico.providers.gcs.service import Backoff, Request, Response, Service
from portico.providers.multipart.parts import LOOKUP_FRACTION, MARK, Parts, UploadPart
from portico.providers.objects.part_store import PartLimits, PartStore, SentPart, UploadState
from portico.providers.objects.service import MTIME, as_rfc3339, name_of
from portico.providers.wire.responses import malformed_response

_QUANTUM = 256 * 1024
_CANCEL_SECONDS = 10
_LOST = (404, 410)
"""What the service answers about a session that it does not know."""

log = structlog.get_logger()


class SessionLost(ProviderUnavailable):
    """The service no longer knows a session: it expired, was cancelled or has failed."""


class GcsUpload(PartStore):
    limits = PartLimits(smallest=_QUANTUM, multiple=_QUANTUM, takes_last=False, in_order=True)

    def __init__(self, service: Service, state: UploadState) -> None:
        self._service = service
        self._state = state
        self._name = name_of(state.key)
        plain = state.content_type.isascii() and state.content_type.isprintable()
        self._content_type = state.content_type if plain else UNKNOWN_TYPE
        self._session: ResumableSession | None = None

    @property
    def _generation(self) -> int | None:
        """Of the object that may be replaced; 0 if it must not exist, None for any."""
        return self._replaced(self._state.replaces_goal, self.if_match)

    def _replaced(self, replaces: bool, if_match: str | None) -> int | None:
        if if_match is None:
            return None if replaces else 0
        if not re.fullmatch("[1-9][0-9]{0,18}", if_match):
            raise changed(self._name)
        return int(if_match)

    def _refusal(self, generation: int | None) -> PorticoError:
        """What it means that the condition is not met."""
        return changed(self._name) if generation else already_exists(self._name)

    @contextmanager
    def _storing(self, generation: int | None) -> Iterator[None]:
        """As `translated`, where 412 means that the object may not be replaced, 404 that the bucket does not exist."""
        with translated(self._name):
            try:
                yield
            except ServiceError as error:
                if error.status == 412:
                    raise self._refusal(generation) from None
                error.missing_bucket = error.status == 404
                raise

    def _request(
        self, kind: str, generation: int | None, headers: dict[str, str], body: Sequence[bytes | memoryview]
    ) -> Request:
        condition = None if generation is None else str(generation)
        params = {"uploadType": kind, "fields": OBJECT_FIELDS, "ifGenerationMatch": condition}
        return Request("POST", self._service.uploads_url, params, headers, body)

    def _metadata(self, checksum: Checksum | None = None) -> bytes:
        state = self._state
        custom = {MARK: state.id}
        if state.modified is not None:
            seconds = math.floor(state.modified.timestamp())
            custom |= {MTIME: as_rfc3339(state.modified), GSUTIL_MTIME: str(seconds)}
        known = {"name": state.goal, "contentType": self._content_type, "metadata": custom}
        return msgspec.json.encode(known | (checksum.metadata if checksum else {}))

    async def put(self, whole: UploadPart) -> Entry:
        async def over(replaces: bool, if_match: str | None) -> Entry:
            generation = self._replaced(replaces, if_match)
            with self._storing(generation):
                return (await self._put(whole, generation)).entry()

        return await self.replacing(self._name, self._state.replaces_goal, over)

    async def _put(self, whole: UploadPart, allowed: int | None) -> ObjectResource:
        """Store an object by one request.

        If the response is lost, a look-up shows whether the object is ours. If it is not, the next attempt replaces
        only the version that was found, so that a delayed first attempt cannot undo another upload.
        """
        checksum = Checksum()
        checksum.add(whole.chunks)
        generation = allowed
        backoff = Backoff()
        in_doubt = False
        while True:
            try:
                return read_object((await self._service.once(self._single_request(whole, checksum, generation))).body)
            except FAILURES as error:
                superseded = in_doubt and isinstance(error, ServiceError) and error.status == 412
                if isinstance(error, ServiceError) and not (error.temporary or superseded):
                    raise
                lost = error
            in_doubt = True
            found = await self._service.find(self._state.goal, self._service.timeout / LOOKUP_FRACTION)
            if found and found.mark == self._state.id:
                return found
            current = found.generation if found else 0
            if allowed not in (None, current):
                raise self._refusal(allowed)
            generation = current
            await backoff.after(lost, again=superseded or None)

    def _single_request(self, part: UploadPart, checksum: Checksum, generation: int | None) -> Request:
        boundary = token_hex(16)
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode()
            + self._metadata(checksum)
            + f"\r\n--{boundary}\r\nContent-Type: {self._content_type}\r\n\r\n".encode()
        )
        headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
        body = [head, *part.chunks, f"\r\n--{boundary}--\r\n".encode()]
        return self._request("multipart", generation, headers, body)

    async def begin(self) -> str:
        generation = self._generation
        headers = {"Content-Type": "application/json; charset=UTF-8", "X-Upload-Content-Type": self._content_type}
        request = self._request("resumable", generation, headers, [self._metadata()])
        with self._storing(generation):
            response = await self._service.call(request)  # a session whose response was lost expires
            return _session_address(self._service.endpoint, response.headers.get("Location", ""))

    async def put_parts(self, parts: Parts) -> Entry:
        self._state.session = await self.begin()
        session = ResumableSession(self._service, self._state.session)
        try:
            stored = (await parts.send(lambda part: self._send_by(session, part), in_order=True))[-1]
        except BaseException:
            await asyncio.shield(self._try_to_cancel())
            raise
        assert stored
        return stored.entry()

    async def _send_by(self, session: "ResumableSession", part: UploadPart) -> ObjectResource | None:
        with self._storing(self._generation):  # not around everything: errors of the stream are not the service's
            if part.last and self.kept:  # the condition of a session is that of its beginning
                await self.kept.prepare()
            return await session.send(part)

    async def send(self, part: UploadPart) -> str:
        # It may be the last part of a request, but it is not that of the file.
        await self._send(replace(part, last=False))
        assert self._session
        return self._session.checksum.state

    async def commit(self, parts: list[SentPart], last: UploadPart, size: int) -> Entry:
        stored = await self._send(last)
        assert stored
        return stored.entry()

    async def _send(self, part: UploadPart) -> ObjectResource | None:
        session, self._session = self._session, None
        if session is None or session.kept != part.offset:
            sent = self._state.parts[-1:]
            checksum = Checksum.restored(sent[0].result) if sent else Checksum()
            session = ResumableSession(self._service, self._state.session, part.offset, checksum)
        try:
            stored = await self._send_by(session, part)
        except SessionLost as error:
            if self._generation == 0 and await self._service.find(self._state.goal):
                raise already_exists(self._name) from error
            raise not_found(self._name, cause=error.cause) from error
        self._session = session
        return stored

    async def own(self, key: str, size: int) -> Entry | None:
        found = await self._service.find(key)
        return found.entry() if found and (found.mark, found.size) == (self._state.id, size) else None

    async def abort(self) -> None:
        with translated(self._name):
            await self._cancel()

    async def _cancel(self) -> None:
        """Discard what was uploaded. One of `FAILURES` if the session, which is invisible, may still be there."""
        try:
            await self._service.call(Request("DELETE", self._state.session, signed=False), _CANCEL_SECONDS)
        except ServiceError as error:
            if error.status not in _LOST:
                raise

    async def _try_to_cancel(self) -> None:
        """The error that is being handled says more. What is left expires after a week."""
        try:
            await self._cancel()
        except FAILURES as error:
            # Only the type: the message may contain the address.
            log.warning("upload-not-cancelled", provider="gcs", why=type(error).__name__)


class ResumableSession:
    """A session of the service, which reports how much it has."""

    def __init__(self, service: Service, address: str, kept: int = 0, checksum: Checksum | None = None) -> None:
        """`kept` and `checksum`: how many bytes another process has sent, and their checksum.

        `address` grants access and outlives the token, so it must not be logged.
        """
        self._service = service
        self._address = address
        self.kept = kept
        """How many bytes were sent. After a resumption, the service may have more, and ignores them."""
        self.checksum = checksum or Checksum()
        self._resumed = checksum is not None

    async def send(self, part: UploadPart) -> ObjectResource | None:
        """Send a part after all previous ones. Returns the object after the last one."""
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
        request = Request("PUT", self._address, headers=headers, body=content, signed=False)
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
