"""A request's body as it arrives."""

import asyncio
import time
from typing import Self

from starlette.requests import Request
from starlette.types import Receive

from portico.errors import ClientTimeout, InvalidRequest, UnsupportedMediaType
from portico.operations.cancellation import ClientGone
from portico.operations.fair_scheduling import FairScheduler

IDLE_SECONDS = 30.0
"""How long the client may send nothing in the middle of a body."""
SMALL_SECONDS = 10.0
"""The same for small bodies."""
MIN_RATE = 512
"""Minimum average rate in bytes per second; slower clients time out."""


class RequestBody:
    """The body's chunks, one after the other; pulling the next one is what lets the client send it."""

    def __init__(
        self, receive: Receive, idle_seconds: float | None = None, *, scheduler: FairScheduler | None = None
    ) -> None:
        self._receive = receive
        self._scheduler = scheduler
        self._ended = False
        self._waiting: asyncio.Timeout | None = None
        self._max_time = self._time_left = idle_seconds or IDLE_SECONDS

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._time_left) as self._waiting:
                    message = await self._receive()
            except TimeoutError:
                raise ClientTimeout(
                    "The body arrived too slowly or not at all; send the request again."
                ) from None
            finally:
                self._waiting = None
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._ended = not message.get("more_body", False)
            if chunk := message.get("body", b""):
                waited, bought = time.monotonic() - began, len(chunk) / MIN_RATE
                self._time_left = min(self._max_time, self._time_left - waited + bought)
                if self._scheduler:
                    await self._scheduler.turn(len(chunk))
                return bytes(chunk)
        raise StopAsyncIteration

    def interrupt(self) -> None:
        """End a wait for the client at once, as if it had taken too long."""
        if self._waiting and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())


def is_content_coded(request: Request) -> bool:
    """Whether Content-Encoding names anything but identity."""
    codings = ",".join(request.headers.getlist("Content-Encoding")).lower().split(",")
    return any(coding.strip() not in ("", "identity") for coding in codings)


def refuse_coded(request: Request) -> None:
    if is_content_coded(request):
        raise UnsupportedMediaType("The body is content-coded; send it without a Content-Encoding.")


async def read_small(request: Request, limit: int) -> bytes:
    """Read a small body."""
    if is_content_coded(request):
        raise InvalidRequest("The body is content-coded; send it without a Content-Encoding.")
    body = bytearray()
    async for chunk in RequestBody(request.receive, SMALL_SECONDS):
        body += chunk
        if len(body) > limit:
            raise InvalidRequest(f"The body exceeds {limit} bytes.")
    return bytes(body)


async def until_gone(receive: Receive) -> None:
    """Returns when the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
