"""What one user asks for in masses does not keep others waiting."""

import asyncio
from collections.abc import Awaitable

import pytest
from PIL import Image

from portico.operations.thumbnail_process import Pictures, ThumbnailProcess

from ..operations.test_thumbnails import encoded
from .gateways import Gateway, address

PICTURE = encoded(Image.new("RGB", (8, 8)), "PNG")
MANY = 24


class Held:
    """Work that is not done before it is let go. Each piece takes its turn in `began`."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.began: list[str] = []
        self._changed = asyncio.Event()

    async def work(self, name: str) -> None:
        self.began.append(name)
        self._changed.set()
        await self.let_go.wait()

    async def begins(self, number: int) -> None:
        """Return when so many pieces have begun."""
        while len(self.began) < number:
            self._changed.clear()
            await self._changed.wait()


@pytest.fixture
def held() -> Held:
    return Held()


async def asked(gateway: Gateway, user: str, path: str, **parameters: str) -> asyncio.Task[int]:
    """A request that is on its way; its status."""
    headers = await gateway.sign_in(user)

    async def ask() -> int:
        return (await gateway.client.get(address(path), headers=headers, params=parameters)).status_code

    return asyncio.create_task(ask())


async def settled(work: Awaitable[object]) -> None:
    """A wait that is only ended by a failure."""
    async with asyncio.timeout(60):
        await work


async def test_slow_thumbnails_of_one_user_do_not_delay_those_of_another(
    gateway: Gateway, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MANY + 1):
        gateway.put(f"{number}.png", PICTURE + b"%d" % number)

    async def make(self: ThumbnailProcess, *_: object) -> Pictures:
        await held.work("")
        return Pictures(1, [b"RIFF0000WEBP"])

    monkeypatch.setattr(ThumbnailProcess, "make", make)
    flood = [await asked(gateway, "web", f"{number}.png", action="THUMBNAIL") for number in range(MANY)]
    await settled(held.begins(2))
    other = await asked(gateway, "reader", f"{MANY}.png", action="THUMBNAIL")
    await settled(held.begins(3))
    held.let_go.set()
    assert await other == 200
    assert [await each for each in flood] == [200] * MANY
