"""Share links: their end, and what guests see when things change meanwhile."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from portico.accounts.mounts import owner_of
from portico.accounts.share_links import ShareLinks
from portico.api.shares import SHARE_SESSIONS
from portico.model import timestamps
from portico.model.errors import Unavailable
from portico.model.paths import Path
from portico.model.reach import MountRule
from portico.model.rights import Right
from portico.runtime import clock as clock_module

from .conftest import Clock
from .gateways import Gateway, address
from .shares import SHARER, GuestClient, owner, share


async def _rename(gateway: Gateway) -> None:
    moved = await gateway.call("POST", "box", user=SHARER, params={"action": "MOVE", "target": "/moved/deep"})
    assert moved.status_code == 201, moved.text


async def _delete(gateway: Gateway) -> None:
    assert (await gateway.call("DELETE", "box", user=SHARER, params={"recursive": "true"})).status_code == 204


async def _replace(gateway: Gateway) -> None:
    await _delete(gateway)
    gateway.put("box", b"a file")


Change = Callable[[Gateway], Awaitable[object]]


@pytest.mark.parametrize(
    ("change", "guest_sees", "opens"),
    [
        (lambda gateway: gateway.users.change(SHARER, disabled=True), 401, 404),
        (lambda gateway: gateway.users.change(SHARER, rights={Right.DOWNLOAD, Right.UPLOAD}), 401, 404),
        (lambda gateway: gateway.users.change(SHARER, rights={Right.LIST, Right.SHARE}), 401, 404),
        (lambda gateway: gateway.users.change(SHARER, root="/elsewhere"), 401, 404),
        (lambda gateway: gateway.users.delete(SHARER), 401, 404),
        (_rename, 200, 201),
        (_delete, 404, 404),
        (_replace, 404, 404),
    ],
    ids=["disabled", "share", "download", "root", "owner-deleted", "renamed", "deleted", "replaced"],
)
async def test_what_a_guest_sees_when_things_change(
    gateway: Gateway, clock: Clock, change: Change, guest_sees: int, opens: int
) -> None:
    gateway.put("box/in/a.txt", b"content")
    shared = await share(gateway, "/box", "both")
    inner = await share(gateway, "/box/in/a.txt")
    guest, file_guest = await shared.guest(), await inner.guest()
    assert (await guest.call("GET", "in/a.txt")).status_code == 200
    await change(gateway)
    clock.advance(1)
    assert (await guest.call("GET", "in/a.txt")).status_code == guest_sees
    assert (await guest.call("GET", "", params={"action": "LIST"})).status_code == guest_sees
    assert (await file_guest.call("GET", "a.txt")).status_code == guest_sees
    assert (await guest.put("new.txt")).status_code == (201 if guest_sees == 200 else guest_sees)
    assert (await shared.open()).status_code == opens
    if change in (_delete, _replace):
        assert (await shared.open()).json()["code"] == "target-gone"
    if change in (_rename, _delete, _replace):
        assert not (gateway.files / "box").is_dir()  # nothing makes it again


def _in(seconds: int) -> str:
    return timestamps.from_epoch(clock_module.now() + seconds * 1000)


async def test_the_end_of_a_link(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt", b"content")
    ended, expiring = await share(gateway, "/box", "both"), await share(gateway, expiresAt=_in(seconds=3600))
    guests = [await ended.guest(), await expiring.guest()]
    ticket = (await guests[0].call("POST", "a.txt", params={"action": "TICKET"})).json()["ticket"]
    by_ticket = {"params": {"ticket": ticket}}
    answer = await gateway.client.get("/backend/1.0.0/filesystem/a.txt", **by_ticket)  # type: ignore[arg-type]
    assert answer.content == b"content"
    # Nothing of it is kept by a browser or a proxy, and nothing runs.
    assert answer.headers["Cache-Control"] == "no-store"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    for destination in ("script", "iframe", "object"):
        run = await gateway.client.get(
            "/backend/1.0.0/filesystem/a.txt",
            headers={"Sec-Fetch-Dest": destination},
            **by_ticket,  # type: ignore[arg-type]
        )
        assert run.status_code == 403
    page = await gateway.client.get(f"/s/{ended.token}")
    assert (page.headers["Cache-Control"], page.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    renewed = await owner(gateway, "POST", f"/{ended.body['id']}/address")
    assert (await ended.open()).status_code == 404
    ended.body = renewed
    assert (await ended.open()).status_code == 201

    await ended.end()
    clock.advance(3601)
    for link, guest in zip((ended, expiring), guests, strict=True):
        assert (await guest.call("GET", "a.txt")).status_code == 401
        assert (await guest.call("GET", "a.txt", headers={"If-None-Match": "*"})).status_code == 401
        gone = await link.open()
        assert (gone.status_code, gone.json()["code"]) == (404, "not-found")
        assert gone.headers["Cache-Control"] == "no-store"
        assert (await gateway.client.get(f"/s/{link.token}")).status_code == 404
    by_ticket_now = await gateway.client.get("/backend/1.0.0/filesystem/a.txt", **by_ticket)  # type: ignore[arg-type]
    assert by_ticket_now.status_code == 401
    unknown = await gateway.client.post(SHARE_SESSIONS, json={"link": "x" * 32})
    assert {**unknown.json(), "requestId": ""} == {**gone.json(), "requestId": ""}


async def test_a_ticket_of_a_guest_is_renewed(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt", b"content")
    gateway.put("box/b.txt")
    shared = await share(gateway)
    guest, other = await shared.guest(), await shared.guest()

    async def ticket(by: GuestClient = guest, path: str = "a.txt", **renewed: str) -> str:
        answer = await by.call("POST", path, params={"action": "TICKET", **renewed})
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["ticket"])

    async def status(text: str) -> int:
        return (await gateway.client.get(address("a.txt"), params={"ticket": text})).status_code

    first = await ticket()
    assert await ticket(other, ticket=first) != first
    assert await ticket(path="b.txt", ticket=first) != first
    clock.advance(40)
    assert await ticket(ticket=first) == first
    clock.advance(40)
    assert await status(first) == 200
    clock.advance(40)
    assert await status(first) == 401
    assert await ticket(ticket=first) != first


async def test_a_move_is_done_even_if_links_cannot_follow(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any) -> None:
        raise Unavailable("The database does not answer.")

    gateway.put("box/a.txt")
    monkeypatch.setattr(ShareLinks, "moved", failing)
    moved = await gateway.call("POST", "box", user=SHARER, params={"action": "MOVE", "target": "/moved"})
    assert moved.status_code == 201
    assert (gateway.files / "moved/a.txt").exists()


async def test_an_upload_under_way_when_the_link_ends(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    shared = await share(gateway, "/box", "request", askName=False)
    guest = await shared.guest()

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        await shared.end()
        yield b"second"

    assert (await guest.put("a.txt", body())).status_code == 401
    assert not list((gateway.files / "box").iterdir())
    assert (await shared.show())["uploads"] == 0


async def test_a_new_password_ends_the_guests_of_the_former_one(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway, password="the former password")
    guest = await shared.guest(password="the former password")
    await owner(gateway, "PATCH", f"/{shared.body['id']}", json={"title": "Same password"})
    assert (await guest.call("GET", "a.txt")).status_code == 200
    await owner(gateway, "PATCH", f"/{shared.body['id']}", json={"password": "another password"})
    assert (await guest.call("GET", "a.txt")).status_code == 401
    again = await shared.guest(password="another password")
    assert (await again.call("GET", "a.txt")).status_code == 200


async def test_a_new_address_ends_the_guests_of_the_former_one(gateway: Gateway) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway)
    guest = await shared.guest()
    assert (await guest.call("GET", "a.txt")).status_code == 200
    shared.body = await owner(gateway, "POST", f"/{shared.body['id']}/address")
    assert (await guest.call("GET", "a.txt")).status_code == 401
    assert (await (await shared.guest()).call("GET", "a.txt")).status_code == 200


async def test_a_file_of_a_link_that_lost_its_folder_is_gone(gateway: Gateway) -> None:
    """Behind the gateway's back, so that only the storage knows. What another mount keeps is no sign of the folder."""
    gateway.put("box/a")
    gateway.put("other/b")
    rule = MountRule(Path.parse("/box/in"), "local", "/web/other", frozenset(Right))
    await gateway.mounts.add(owner_of(SHARER), rule)
    guest = await (await share(gateway)).guest()
    for path in ("a", "in/b"):
        assert (await guest.call("GET", path, headers={"Range": "bytes=0-0"})).status_code == 206, path
    shutil.rmtree(gateway.files / "box")
    for path in ("a", "in/b"):
        for headers in ({}, {"Range": "bytes=0-0"}, {"If-None-Match": '"e"'}):
            gone = await guest.call("GET", path, headers=headers)
            assert (gone.status_code, gone.json()["code"]) == (404, "target-gone"), (path, headers)
