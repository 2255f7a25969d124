"""The bytes of one request for a resumable upload, checked as they arrive."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self

import msgspec
import structlog

from portico.drive.drive import Drive
from portico.model.errors import PorticoError, TooLarge
from portico.operations.actors.actor import Watch
from portico.operations.files.digests import Hashing
from portico.operations.uploads.access import no_such_upload, save_progress, state_of
from portico.operations.uploads.expiry import abandon
from portico.store.uploads import UploadClaim, Uploads

READ_AHEAD_BYTES = 2**18


class ReadAhead:
    """The chunks of a body. From the begin of its context until the first is asked for, it takes some in advance."""

    def __init__(self, chunks: AsyncIterator[bytes], most: int = READ_AHEAD_BYTES) -> None:
        """It stops with the chunk that makes it `most` bytes or more."""
        self._chunks = chunks
        self._left = most
        self._taken: deque[bytes] = deque()
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Nobody else may read the body before this has ended."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            if not self._reading.cancelled():
                self._reading.exception()  # it is retrieved
            self._reading = None
        self._taken.clear()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._left = 0
        if self._taken:
            return self._taken.popleft()
        if self._reading is not None:
            reading, self._reading = self._reading, None
            await reading
            if self._taken:
                return self._taken.popleft()
        return await anext(self._chunks)

    async def _read(self) -> None:
        """Its error is raised where the chunk would have been."""
        while self._left > 0:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                return
            self._left -= len(chunk)
            self._taken.append(chunk)


log = structlog.get_logger()

HELD_BYTES = 8 * 2**20
"""A request of this size is held in memory until its digest is known to match."""


class SizeLimit(msgspec.Struct):
    """How many bytes an upload still takes."""

    size: int
    """Of the whole file."""
    left: int
    is_announced: bool = True
    """Whether the client has said the size, or it is the limit."""

    def error(self) -> TooLarge:
        if self.is_announced:
            return TooLarge(
                f"The upload exceeds its declared size of {self.size} bytes. Start a new upload with the right size."
            )
        return too_large(self.size)


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"Files can have at most {limit} bytes. Upload a smaller file.")


async def guarded(
    claim: UploadClaim, chunks: AsyncIterator[bytes], limit: SizeLimit, watch: Watch
) -> AsyncIterator[bytes]:
    """The chunks, until there are too many, or the upload is taken over, or its actor may not go on."""
    while True:
        claim.check()
        watch.check()
        try:
            chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except Exception:
            # One who makes way ends the wait for the client, which looks like a slow client here.
            claim.check()
            raise
        limit.left -= len(chunk)
        if limit.left < 0:
            raise limit.error()
        yield chunk


class VerifiedBodies(msgspec.Struct, frozen=True):
    """Bodies of which nothing is passed on before all of it matches its digest: a service cannot take bytes back."""

    uploads: Uploads
    drive: Drive
    held: asyncio.Semaphore
    """Of those in memory."""
    create_hidden: Callable[[int | None], Awaitable[str]]
    """Returns the id of a hidden upload of this size, which nobody else knows."""

    @asynccontextmanager
    async def verified(
        self, chunks: AsyncIterator[bytes], length: int | None, hashing: Hashing
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """A small body is held in memory; a larger one is stored as a hidden upload of its own and read again."""
        if length is not None and length <= HELD_BYTES and not self.held.locked():
            async with self.held:
                content = [chunk async for chunk in hashing.watch(chunks)]
                await hashing.check()
                yield _each(content)
        else:
            part = await self.create_hidden(length)
            async with self.uploads.claimed(part) as claim:
                if claim is None:
                    raise no_such_upload()
                try:
                    upload = await self.drive.resume_upload(state_of(claim.record))
                    save = partial(save_progress, claim, upload)
                    await upload.append(hashing.watch(chunks), save, at_most=length)
                    await hashing.check()
                    await upload.finish(save)
                    yield partial_uploads([(self.drive, part)])
                finally:
                    await asyncio.shield(self._end(claim))

    async def _end(self, claim: UploadClaim) -> None:
        try:
            await abandon(claim, self.drive)
        except PorticoError as error:  # the outcome of the request says more
            log.warning("hidden-upload-not-removed", code=error.code, cause=error.cause, left_to="sweep")


async def partial_uploads(parts: Sequence[tuple[Drive, str]]) -> AsyncIterator[bytes]:
    """What these partial uploads hold, one after the other."""
    for drive, upload_id in parts:
        download = await drive.read_partial_upload(upload_id)
        async with aclosing(download.chunks) as chunks:
            async for chunk in chunks:
                yield chunk


async def _each(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
