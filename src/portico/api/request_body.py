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
        self._wait = _Wait()
        self._max_time = self._time_left = idle_seconds or IDLE_SECONDS

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            began = self._wait.begin(self._time_left)
            more = False
            try:
                message = await self._receive()
                more = message.get("more_body", False)
            finally:
                if self._wait.end(last=not more):
                    raise ClientTimeout("The body arrived too slowly or not at all. Send the request again.") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._ended = not more
            if chunk := message.get("body", b""):
                waited, bought = time.monotonic() - began, len(chunk) / MIN_RATE
                self._time_left = min(self._max_time, self._time_left - waited + bought)
                if self._scheduler and not self._scheduler.take(len(chunk)):
                    await self._scheduler.turn(len(chunk))
                return bytes(chunk)
        raise StopAsyncIteration

    def interrupt(self) -> None:
        """End a wait for the client at once, as if it had taken too long."""
        self._wait.expire()


class _Wait:
    """Cancels a task that waits too long, as `asyncio.timeout` does.

    A body is waited for thousands of times. So its timer is not set for each of them: when it fires, it looks whether
    the task has waited long enough, and is set again if it has not.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._expired = False
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def begin(self, seconds: float) -> float:
        """The current task waits, for so many seconds at most; returns the time."""
        now = time.monotonic()
        self._task = task = asyncio.current_task()
        assert task
        self._cancelling = task.cancelling()
        self._until = now + seconds
        if self._timer is None or self._until < self._timer_at:
            self._set_timer(seconds)
        return now

    def end(self, *, last: bool) -> bool:
        """The wait is over, and if it is the `last`, all of them are; whether the task was cancelled by this alone."""
        task, self._task = self._task, None
        if last and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._expired:
            return False
        self._expired = False
        return task is not None and task.uncancel() <= self._cancelling

    def expire(self) -> None:
        """Cancel the task if it waits."""
        if self._task is not None and not self._expired:
            self._expired = True
            self._task.cancel()

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)
        self._timer_at = self._until

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if (left := self._until - time.monotonic()) > 0:
            self._set_timer(left)
        else:
            self.expire()


def is_content_coded(request: Request) -> bool:
    """Whether Content-Encoding names anything but identity."""
    codings = ",".join(request.headers.getlist("Content-Encoding")).lower().split(",")
    return any(coding.strip() not in ("", "identity") for coding in codings)


def refuse_coded(request: Request) -> None:
    if is_content_coded(request):
        raise UnsupportedMediaType("Encoded bodies aren't supported; send the body without Content-Encoding.")


async def read_small(request: Request, limit: int) -> bytes:
    """Read a small body."""
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
