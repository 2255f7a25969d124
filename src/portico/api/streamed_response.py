"""A response that is sent as its content arrives."""

import asyncio
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from portico.api.request_body import until_gone
from portico.entries import Chunks
from portico.operations.cancellation import ClientGone
from portico.operations.fair_scheduling import FairScheduler

IDLE_SECONDS = 30.0
MIN_RATE = 8 * 1024
"""How long a client may take nothing of a download, and how many bytes a second it must take."""


class StreamedResponse(Response):
    """Chunks on their way to the client, closed whatever happens on that way."""

    def __init__(
        self,
        chunks: Chunks,
        scheduler: FairScheduler,
        headers: Mapping[str, str],
        status_code: int = 200,
        *,
        size: int | None = None,
    ) -> None:
        super().__init__(status_code=status_code, headers=headers)
        if "Content-Length" not in headers:
            # That of the empty body with which it was made.
            self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._chunks = chunks
        self._scheduler = scheduler
        self._size = size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._chunks, None)
            if len(first or b"") == self._size:  # a small file: nothing is left to wait for
                await self._scheduler.turn(len(first or b""))
                await self._start(send)
                await send({"type": "http.response.body", "body": first or b""})
            else:
                await self._stream(first, receive, send)
        finally:
            await self._chunks.aclose()

    async def _start(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

    async def _stream(self, chunk: bytes | None, receive: Receive, send: Send) -> None:
        """Send this chunk and all others."""
        # The server takes what is sent to a client that has gone, and does not say so: we have to listen for it.
        gone = asyncio.create_task(until_gone(receive))
        try:
            await self._start(send)
            while chunk is not None:
                await self._scheduler.turn(len(chunk))
                if gone.done():
                    raise ClientGone
                # Somebody who takes nothing must not keep the file, the connection and the memory forever.
                try:
                    async with asyncio.timeout(IDLE_SECONDS + len(chunk) / MIN_RATE):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                except TimeoutError:
                    raise ClientGone from None
                chunk = await anext(self._chunks, None)
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
