"""A request's body as it arrives."""

import asyncio
import time
from typing import Self

from starlette.requests import Request
from starlette.types import Receive

from portico.api.pace import Pace
from portico.errors import ClientTimeout, InvalidRequest

IDLE_SECONDS = 30.0
"""How long the client may send nothing in the middle of a body."""
SMALL_SECONDS = 10.0
"""The same for a body that has no business being large."""
LEAST_RATE = 512
"""Bytes a second that buy the client more time: who sends less than that, on average, runs out of it."""


class ClientGone(InvalidRequest):
    """The client hung up, or what it sends cannot be read on; it may still be listening."""

    def __init__(self) -> None:
        super().__init__("The request broke off before its end; send it again, whole.")


class ChangeAbandoned(ClientGone):
    """The client hung up while what it had asked for was being done."""


class IncomingBody:
    """The body's chunks, one after the other; pulling the next one is what lets the client send it."""

    def __init__(
        self, receive: Receive, idle_seconds: float | None = None, *, pace: Pace | None = None
    ) -> None:
        self._receive = receive
        self._pace = pace
        self._ended = False
        self._most_patience = self._patience = idle_seconds or IDLE_SECONDS

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._patience):
                    message = await self._receive()
            except TimeoutError:
                raise ClientTimeout(
                    "The body arrived too slowly or not at all; send the request again."
                ) from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._ended = not message.get("more_body", False)
            if chunk := message.get("body", b""):
                waited, bought = time.monotonic() - began, len(chunk) / LEAST_RATE
                self._patience = min(self._most_patience, self._patience - waited + bought)
                if self._pace:
                    await self._pace.turn(len(chunk))
                return bytes(chunk)
        raise StopAsyncIteration


def is_content_coded(request: Request) -> bool:
    """Whether the body is compressed, say, by what any of the lines or their items names."""
    codings = ",".join(request.headers.getlist("Content-Encoding")).lower().split(",")
    return any(coding.strip() not in ("", "identity") for coding in codings)


async def read_small(request: Request, limit: int) -> bytes:
    """The whole of a body that has no business being large."""
    if is_content_coded(request):
        raise InvalidRequest("The body is content-coded; send it as it is.")
    body = bytearray()
    async for chunk in IncomingBody(request.receive, SMALL_SECONDS):
        body += chunk
        if len(body) > limit:
            raise InvalidRequest(f"The body is larger than the {limit} bytes that are taken here.")
    return bytes(body)


async def until_gone(receive: Receive) -> None:
    """Returns when the client hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
