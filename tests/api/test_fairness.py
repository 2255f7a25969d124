"""What one user asks for in masses does not keep others waiting."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import pytest
from PIL import Image

from portico.drive.drive import Drive
from portico.drive.view import DriveView
from portico.drive.walk import DriveWalk
from portico.model.entries import Entry, Page
from portico.model.paths import Path
from portico.operations.actors import request_context
from portico.operations.actors.request_context import MAX_SEARCHES_OF, RequestContext
from portico.operations.files.archives import AT_ONCE
from portico.operations.thumbnails.process import Pictures, ThumbnailProcess
from portico.providers.contract.provider import Found
from portico.store.digests import FileDigest, FileDigests

from ..operations.test_thumbnails import encoded
from .gateways import Gateway, address
from .shares import share

PICTURE = encoded(Image.new("RGB", (8, 8)), "PNG")
MANY = 24

T = TypeVar("T")


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


async def settled(work: Awaitable[T]) -> T:
    """The limit only ends a hang."""
    async with asyncio.timeout(60):
        return await work


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


async def test_guests_of_a_link_do_not_take_all_places_for_thumbnails() -> None:
    process = ThumbnailProcess()
    let_go = asyncio.Event()

    async def guest(network: str) -> None:
        async with process.turn((network, "link")):
            await let_go.wait()

    guests = [asyncio.create_task(guest(f"192.0.2.{number}")) for number in range(MANY)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60), process.turn(("user",)):
        let_go.set()
    await asyncio.gather(*guests)


async def test_archives_at_once_are_limited_by_actor(
    gateway: Gateway, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.put("folder/a", b"a")
    genuine = DriveView.read_small

    async def read_small(self: DriveView, *arguments: Any) -> Any:
        await held.work("")
        return await genuine(self, *arguments)

    monkeypatch.setattr(DriveView, "read_small", read_small)
    own = [await asked(gateway, "web", "folder", action="ZIP") for _ in range(AT_ONCE[0])]
    await settled(held.begins(AT_ONCE[0]))
    refused = await settled(gateway.call("GET", "folder", params={"action": "ZIP"}))
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    other = await asked(gateway, "reader", "folder", action="ZIP")
    await settled(held.begins(AT_ONCE[0] + 1))
    held.let_go.set()
    assert [await each for each in [*own, other]] == [200] * (AT_ONCE[0] + 1)
    assert (await gateway.call("HEAD", "folder", params={"action": "ZIP"})).status_code == 200
    assert await (await asked(gateway, "web", "folder", action="ZIP")) == 200


@pytest.mark.parametrize("size", ["5000", "20001", f"{10**18}"])
async def test_large_listings_of_one_user_do_not_delay_that_of_another(
    gateway: Gateway, held: Held, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    genuine = Drive.list_page

    async def list_page(self: Drive, folder: Path, size: int, *arguments: Any, **options: Any) -> Page:
        await held.work(str(size))
        return await genuine(self, folder, size, *arguments, **options)

    monkeypatch.setattr(Drive, "list_page", list_page)
    flood = [await asked(gateway, "web", "", size=size) for _ in range(MANY)]
    await settled(held.begins(1))
    others = [await asked(gateway, "reader", "", size=str(1000 + number)) for number in range(3)]
    await settled(held.begins(4))
    assert sorted(held.began) == sorted(["1000", "1001", "1002", size])
    held.let_go.set()
    assert [await each for each in flood + others] == [200] * (MANY + 3)


async def test_digests_of_a_large_folder_are_looked_up_in_parts(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    genuine = FileDigests.find

    async def find(self: FileDigests, connection: str, files: Mapping[str, Entry]) -> dict[str, FileDigest]:
        found.append(len(files))
        return await genuine(self, connection, files)

    monkeypatch.setattr(FileDigests, "find", find)
    for number in range(1_100):
        gateway.put(f"many/{number}", b"")
    digest = {"Want-Repr-Digest": "sha-256=1"}
    for name in ("first", "last"):
        stored = await gateway.call("PUT", f"many/{name}", content=name.encode(), headers=digest)
        assert stored.status_code == 201, stored.text
    found.clear()
    page = (await gateway.list("many", size=5000, fields="digest")).json()["content"]
    assert sorted(entry["name"] for entry in page if "digest" in entry) == ["first", "last"]
    assert (sum(found), max(found)) == (1_102, 500)


async def test_searches_at_once_are_limited_by_actor(
    gateway: Gateway, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = DriveWalk.page

    async def page(self: DriveWalk, size: int) -> list[Found]:
        await held.work("")
        return await genuine(self, size)

    monkeypatch.setattr(DriveWalk, "page", page)
    most = MAX_SEARCHES_OF[0]
    flood = [await asked(gateway, "web", "", action="SEARCH") for _ in range(most)]
    await settled(held.begins(2))
    other = await asked(gateway, "reader", "", action="SEARCH")
    await settled(held.begins(3))
    refused = await settled(gateway.call("GET", params={"action": "SEARCH"}))
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    held.let_go.set()
    assert [await each for each in [*flood, other]] == [200] * (most + 1)


async def test_a_user_with_few_requests_gets_in_when_another_has_taken_all_places(
    gateway: Gateway, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_context, "MAX_WAITING", 4)
    genuine = Drive.stat

    async def stat(self: Drive, path: Path) -> Entry:
        await held.work("")
        return await genuine(self, path)

    monkeypatch.setattr(Drive, "stat", stat)
    flood = [await asked(gateway, "web", "", action="STAT") for _ in range(4)]
    await settled(held.begins(4))
    assert await settled(await asked(gateway, "web", "", action="STAT")) == 503
    others = [await asked(gateway, "reader", "", action="STAT") for _ in range(2)]
    await settled(held.begins(6))
    assert await settled(await asked(gateway, "reader", "", action="STAT")) == 503
    held.let_go.set()
    assert [await each for each in flood + others] == [200] * 6


async def test_guests_of_a_link_from_one_address_are_one_actor(gateway: Gateway) -> None:
    gateway.put("shared/a", b"")
    link = await share(gateway, path="/shared")
    shares = []
    for address_ in ("192.0.2.1", "192.0.2.1", "192.0.2.2"):
        guest = await link.guest()
        with RequestContext("request", address_) as context:
            actor = await gateway.services.gateway.authentication.with_token(context, guest.visit["token"])
            shares.append(actor.share)
    first, second, third = shares
    assert first == second
    assert first[0] != third[0]
    assert first[1] == third[1] == link.body["id"]
