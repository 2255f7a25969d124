"""How long a client is waited for: as long as it makes headway."""

import asyncio
from collections.abc import Iterable

import pytest
from starlette.types import Message

from portico.api import download, request_body
from portico.api.download import StreamedResponse
from portico.api.request_body import RequestBody
from portico.model.errors import ClientTimeout
from portico.operations.actors.cancellation import ClientGone
from portico.runtime.fair_scheduling import FairScheduler


class ManualTime:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def sender(chunks: Iterable[bytes], pause: float) -> RequestBody:
    """A client that sends each chunk after a pause."""
    remaining = iter(chunks)

    async def receive() -> Message:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": next(remaining, b""), "more_body": True}

    return RequestBody(receive)


async def taken(body: RequestBody, most: int) -> int:
    count = 0
    async for _ in body:
        count += 1
        if count == most:
            break
    return count


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(download, "IDLE_SECONDS", 0.05)


@pytest.mark.usefixtures("short")
async def test_who_trickles_runs_out_of_time_though_never_idle() -> None:
    with pytest.raises(ClientTimeout):
        await taken(sender([b"x"] * 100, pause=0.05), most=100)


async def test_who_is_slow_but_fast_enough_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    time = ManualTime()
    monkeypatch.setattr(request_body, "time", time)

    async def receive() -> Message:
        time.now += 10
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x" * 6000, "more_body": True}  # 600 bytes a second

    assert await taken(RequestBody(receive), most=100) == 100


@pytest.mark.usefixtures("short")
async def test_a_quick_beginning_buys_no_long_silence() -> None:
    body = sender([b"x" * 1_000_000], pause=0)
    assert await taken(body, most=1) == 1

    async def silence() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    body._receive = silence
    with pytest.raises(ClientTimeout):
        await taken(body, most=1)


@pytest.mark.usefixtures("short")
async def test_a_body_that_was_not_waited_for_has_not_ended() -> None:
    body = sender([b"x"], pause=60)
    for _ in range(2):
        with pytest.raises(ClientTimeout):
            await anext(body)


async def test_a_body_that_was_cut_off_has_not_ended() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    body = RequestBody(receive)
    for _ in range(2):
        with pytest.raises(ClientGone):
            await anext(body)


async def test_who_is_cancelled_while_waiting_is_not_late() -> None:
    for interrupted in (False, True):
        body = sender([], pause=60)
        waiting = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0)
        if interrupted:
            body.interrupt()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_an_interrupted_wait_is_a_late_one() -> None:
    body = sender([], pause=60)
    waiting = asyncio.ensure_future(anext(body))
    await asyncio.sleep(0)
    body.interrupt()
    body.interrupt()
    with pytest.raises(ClientTimeout):
        await waiting
    body.interrupt()  # nobody waits


class Content:
    """A file's chunks, which know whether they were closed."""

    def __init__(self) -> None:
        self.closed = False

    def __aiter__(self) -> "Content":
        return self

    async def __anext__(self) -> bytes:
        return b"x"

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.usefixtures("short")
async def test_who_takes_nothing_of_a_download_is_let_go_and_the_file_closed() -> None:
    content = Content()
    response = StreamedResponse(content, FairScheduler(), {"Content-Length": "10"}, size=10)

    async def receive() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    async with asyncio.timeout(60):
        with pytest.raises(ClientGone):
            await response({"type": "http"}, receive, send)
    assert content.closed
