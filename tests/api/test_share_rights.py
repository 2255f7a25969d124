"""Share links: what owners, keys and the administrator allow."""

import errno
import os
import sqlite3
from typing import Any, NoReturn

import pytest

from portico.accounts.api_keys import ApiKeys, KeyScope
from portico.api.shares import LINKS
from portico.model import timestamps
from portico.model.paths import Path
from portico.model.rights import Right
from portico.runtime import clock as clock_module
from portico.store.database import Database

from .conftest import OpenGateway
from .gateways import Gateway, address
from .shares import SHARER, owner, share


async def test_who_is_asked_for_a_missing_right(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    guest = await (await share(gateway, kind="request", askName=False)).guest()
    refused = await guest.call("GET", "a.txt")
    assert refused.json()["detail"] == "This link doesn't allow you to download. Ask the person who sent it to you."
    header = await _key(gateway, Right.LIST)
    for answer in (
        await gateway.client.put(address("a.txt"), headers=header, content=b"x"),
        await gateway.client.post(LINKS, headers=header, json={"path": "/box"}),
    ):
        assert answer.status_code == 403
        assert "Use another key" in answer.json()["detail"]


async def test_a_guest_is_not_sent_to_the_trash_of_a_full_storage(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gateway.files / "box").mkdir()
    guest = await (await share(gateway, kind="request", askName=False)).guest()

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    refused = await guest.put("a.txt", b"x")
    assert (refused.status_code, refused.json()["code"]) == (507, "storage-full")
    assert refused.json()["detail"] == ("The storage is full. Ask the person who sent you the link to make room.")


async def test_a_guest_gets_to_know_the_rights_in_each_folder(gateway: Gateway) -> None:
    gateway.put("box/plans/a.txt")
    for path, rights in {"/box/plans": "list share", "/box/mine": "list download", "/other": "list share"}.items():
        await gateway.mount(path, rights, SHARER)
    whole, plans = {"path": "/", "rights": ["list", "download"]}, {"path": "/plans", "rights": ["list"]}
    visit = (await (await share(gateway)).guest()).visit
    assert (visit["rights"], visit["mounts"]) == (["download", "list"], [whole, plans])
    # Who cannot list gets to know no names.
    visit = (await (await share(gateway, kind="request", askName=False)).guest()).visit
    assert visit["mounts"] == [{"path": "/", "rights": ["upload"]}]
    gateway.put("box/a.txt")
    visit = (await (await share(gateway, "/box/a.txt")).guest()).visit
    assert visit["mounts"] == [whole]


def _in(seconds: int) -> str:
    return timestamps.from_epoch(clock_module.now() + seconds * 1000)


async def test_what_the_administrator_decides(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(
        **{"share.max-lifetime": "2d", "share.require-password": "true", "share.paths": "/box, /out"}
    )
    gateway.put("box/a.txt")
    gateway.put("other/a.txt")
    credentials = await gateway.sign_in(SHARER)

    async def refused(user: str = SHARER, **body: Any) -> str:
        headers = credentials if user == SHARER else await gateway.sign_in(user)
        answer = await gateway.client.post(LINKS, headers=headers, json=body)
        assert 400 <= answer.status_code < 500
        return str(answer.json()["code"])

    good: dict[str, Any] = {"path": "/box", "password": "a password"}
    assert await refused(path="/box") == "invalid-request"
    assert await refused(**(good | {"path": "/other"})) == "forbidden"
    assert await refused(**(good | {"expiresAt": _in(seconds=3 * 86_400)})) == "invalid-request"
    assert await refused(**(good | {"expiresAt": "2020-01-01T00:00:00Z"})) == "invalid-request"
    assert await refused(**(good | {"path": "/box/a.txt", "kind": "request"})) == "invalid-request"
    assert await refused(**(good | {"path": "/box/none"})) == "not-found"
    assert await refused(**(good | {"types": ["a b"]})) == "invalid-request"
    assert await refused(**(good | {"password": "short"})) == "weak-password"
    assert await refused(**(good | {"unknown": 1})) == "invalid-request"
    assert await refused("web", **good) == "forbidden"
    made = await share(gateway, **good)
    assert made.body["expiresAt"] is not None
    changed = await owner(gateway, "PATCH", f"/{made.body['id']}", json={"title": "New", "maxDownloads": 3})
    assert (changed["title"], changed["maxDownloads"], changed["hasPassword"]) == ("New", 3, True)
    (listed,) = (await owner(gateway, "GET"))["content"]
    assert listed == changed
    # A link that was made before the limit ends no later.
    with sqlite3.connect(gateway.settings.home / "portico.db") as database:
        database.execute("UPDATE share_links SET expires_at = NULL")
    ((created,),) = database.execute("SELECT created_at FROM share_links").fetchall()
    latest = timestamps.from_epoch(created + 2 * 86_400_000)
    assert (await made.show())["expiresAt"] == latest
    assert (await made.guest(password="a password")).visit["linkExpiresAt"] == latest
    # Others do not see it.
    answer = await gateway.client.get(f"{LINKS}/{made.body['id']}", headers=await gateway.sign_in("web"))
    assert answer.status_code == 404


async def _key(gateway: Gateway, *rights: Right, folder: str = "/") -> dict[str, str]:
    database = Database(gateway.settings.database_url)
    keys = ApiKeys(database)
    scope = KeyScope("key", frozenset(rights), Path.parse(folder))
    text = (await keys.add(await gateway.users.get(SHARER), scope)).text
    await keys.close()
    await database.close()
    return {"Authorization": f"Bearer {text}"}


async def test_a_key_gets_no_more_rights_by_a_link(gateway: Gateway) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway, "/box", password="a password")
    place = f"{LINKS}/{shared.body['id']}"

    async def statuses(key: dict[str, str]) -> list[int]:
        changes = (
            ("POST", LINKS, {"path": "/box"}),
            ("PATCH", place, {"password": None}),
            ("POST", f"{place}/address", None),
        )
        return [
            (await gateway.client.request(method, where, headers=key, json=body)).status_code
            for method, where, body in changes
        ]

    assert await statuses(await _key(gateway, Right.SHARE)) == [403, 403, 403]
    assert await statuses(await _key(gateway, Right.SHARE, Right.LIST, Right.UPLOAD)) == [403, 403, 403]
    assert (await shared.open(password="a password")).status_code == 201
    assert await statuses(await _key(gateway, Right.SHARE, Right.LIST, Right.DOWNLOAD)) == [201, 200, 201]


async def test_the_paths_that_may_be_shared_are_those_of_users(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"share.paths": "/box"})
    gateway.put("box/in/a.txt")
    gateway.put("other/box/a.txt")

    async def status(path: str, folder: str) -> int:
        key = await _key(gateway, *Right, folder=folder)
        return (await gateway.client.post(LINKS, headers=key, json={"path": path})).status_code

    assert await status("/in", "/box") == 201
    assert await status("/box", "/other") == 403


async def test_off_altogether(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"share.enabled": "false"})
    (gateway.files / "box").mkdir()
    answer = await gateway.client.post(LINKS, headers=await gateway.sign_in(SHARER), json={"path": "/box"})
    assert answer.json()["code"] == "forbidden"
