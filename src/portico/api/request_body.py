"""A request's body as it arrives."""

import asyncio
import time
from typing import Self, TypeVar

import msgspec
from starlette.requests import Request
from starlette.types import Receive

from portico.api.requests import single_header
from portico.model.errors import ClientTimeout, InvalidRequest, UnsupportedMediaType
from portico.operations.actors.cancellation import ClientGone
from portico.runtime.fair_scheduling import FairScheduler

IDLE_SECONDS = 30.0
"""How long the client may send nothing in the middle of a body."""
SMALL_SECONDS = 10.0
"""The same for small bodies."""
MIN_RATE = 512
"""Minimum average rate in bytes per second; slower clients time out."""

_MAX_JSON = 64 * 1024

Body = TypeVar("Body", bound=msgspec.Struct)


class RequestBody:
    """The body's chunks, one after the other; pulling the next one is what lets the client send it."""

    def __init__(
        self, receive: Receive, idle_seconds: float | None = None, *, scheduler: FairScheduler | None = None
    ) -> None:
        self._receive = receive
        self._scheduler = scheduler
        self._ended = False
        self._wait: asyncio.Timeout | None = None
        self._max_time = self._time_left = idle_seconds or IDLE_SECONDS

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._time_left) as self._wait:
                    message = await self._receive()
            except TimeoutError:
                raise ClientTimeout("The body arrived too slowly or not at all. Send the request again.") from None
            finally:
                self._wait = None
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._ended = not message.get("more_body", False)
            if chunk := message.get("body", b""):
                waited, bought = time.monotonic() - began, len(chunk) / MIN_RATE
                self._time_left = min(self._max_time, self._time_left - waited + bought)
                if self._scheduler and not self._scheduler.take(len(chunk)):
                    await self._scheduler.turn(len(chunk))
                return bytes(chunk)
        raise StopAsyncIteration

    def interrupt(self) -> None:
        """End a wait for the client at once, as if it had taken too long."""
        if self._wait and not self._wait.expired():
            self._wait.reschedule(0)


def is_content_coded(request: Request) -> bool:
    """Whether Content-Encoding names anything but identity."""
    codings = ",".join(request.headers.getlist("Content-Encoding")).lower().split(",")
    return any(coding.strip() not in ("", "identity") for coding in codings)


def refuse_coded(request: Request) -> None:
    if is_content_coded(request):
        raise UnsupportedMediaType("Encoded bodies aren't supported; send the body without Content-Encoding.")


async def read_small(request: Request, limit: int) -> bytes:
    if is_content_coded(request):
        raise InvalidRequest("Encoded bodies aren't supported; send the body without Content-Encoding.")
    body = bytearray()
    async for chunk in RequestBody(request.receive, SMALL_SECONDS):
        body += chunk
        if len(body) > limit:
            raise InvalidRequest(f"The body exceeds {limit} bytes; send a smaller one.")
    return bytes(body)


async def until_gone(receive: Receive) -> None:
    """Returns when the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def read_json(request: Request, kind: type[Body], example: str) -> Body:
    """A small JSON body; `InvalidRequest` shows the `example` if it is not one of this kind."""
    if (single_header(request, "Content-Type") or "").partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType("The content type isn't supported; send the body as application/json.")
    try:
        return msgspec.json.decode(await read_small(request, _MAX_JSON), type=kind)
    except msgspec.ValidationError as error:  # its text names the field, never the value
        raise InvalidRequest(f"The body is not valid ({error}); send it like {example}.") from None
    except (ValueError, RecursionError):
        raise InvalidRequest(f"The body is not valid JSON; send it like {example}.") from None
