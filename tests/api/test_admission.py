"""When too many requests wait for the same storage, the next one is refused at once."""

import asyncio

import pytest

from portico.drive.drive import Drive
from portico.model.entries import Page
from portico.model.paths import Path
from portico.operations.actors import request_context

from .gateways import Gateway, address


class Held(asyncio.Event):
    """Listings answer when this is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Semaphore(0)
        """Has as many permits as listings have begun."""


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setattr(request_context, "MAX_WAITING", 2)
    hold = Held()
    genuine = Drive.list_page

    async def slow(self: Drive, folder: Path, size: int, cursor: str | None = None, **options: bool) -> Page:
        hold.begun.release()
        await hold.wait()
        return await genuine(self, folder, size, cursor, **options)

    monkeypatch.setattr(Drive, "list_page", slow)
    return hold


async def test_beyond_what_can_wait_the_answer_is_no_at_once(gateway: Gateway, held: Held) -> None:
    credentials = await gateway.sign_in()
    waiting = [asyncio.create_task(gateway.client.get(address(""), headers=credentials)) for _ in range(2)]
    for _ in waiting:
        await held.begun.acquire()
    for extra in ({}, {"Content-Length": "0"}):
        refused = await gateway.client.get(address(""), headers={**credentials, **extra})
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert refused.headers["Retry-After"] == "1"
    assert (await gateway.client.get("/")).status_code == 200
    assert (await gateway.client.get("/backend/session", headers=credentials)).status_code == 200
    upload = await gateway.client.post(address(""), headers=credentials, files={"data": ("a", b"x")})
    assert upload.status_code == 204
    held.set()
    assert [(await answer).status_code for answer in waiting] == [200, 200]
    for _ in range(3):
        assert (await gateway.client.get(address(""), headers=credentials)).status_code == 200


async def test_a_cancelled_request_gives_its_slot_back(gateway: Gateway, held: Held) -> None:
    credentials = await gateway.sign_in()
    for _ in range(3):
        task = asyncio.create_task(gateway.client.get(address(""), headers=credentials))
        await held.begun.acquire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    held.set()
    assert (await gateway.client.get(address(""), headers=credentials)).status_code == 200
