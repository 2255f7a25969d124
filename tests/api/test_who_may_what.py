"""Every operation by every kind of actor, from one table, by REST and by tus.

To add a kind of actor, add it to `ACTORS`: what it may do, and how it gets its headers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from portico.accounts.api_keys import ApiKeys, KeyScope
from portico.api.account import ACCOUNT, KEYS, PASSWORD, SESSIONS
from portico.api.tus import MEDIA_TYPE, UPLOADS
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.store.database import Database

from .conftest import OpenGateway
from .gateways import Gateway, address
from .tus.client import metadata

SESSION = "session"
"""What only a sign-in with a password may do."""


@dataclass(frozen=True)
class Case:
    """An operation, with what it needs."""

    name: str
    needs: frozenset[Any]
    call: Callable[["Caller"], Awaitable[httpx2.Response]]


@dataclass
class Caller:
    """One actor. All of them see the same folder as their root."""

    gateway: Gateway
    headers: dict[str, str]
    owner: dict[str, str] = field(default_factory=dict)
    """The headers of the owner, who has a resumable upload under way."""

    async def ask(self, method: str, path: str, headers: Any = None, **options: Any) -> httpx2.Response:
        return await self.gateway.client.request(method, path, headers={**self.headers, **(headers or {})}, **options)

    async def file(self, method: str, path: str = "", **options: Any) -> httpx2.Response:
        return await self.ask(method, address(path), **options)

    async def tus(self, method: str, path: str = UPLOADS, headers: Any = None, **options: Any) -> httpx2.Response:
        return await self.ask(method, path, {"Tus-Resumable": "1.0.0", **(headers or {})}, **options)

    async def upload_of_owner(self) -> str:
        """The address of an upload that the owner, who sees the same root, has begun."""
        owner = Caller(self.gateway, self.owner)
        made = await owner.tus(
            "POST", headers={"Upload-Length": "4", "Upload-Metadata": metadata(filename="owned.bin")}
        )
        assert made.status_code == 201, made.text
        location: str = made.headers["Location"]
        return location


async def _append(caller: Caller) -> httpx2.Response:
    headers = {"Upload-Offset": "0", "Content-Type": MEDIA_TYPE}
    return await caller.tus("PATCH", await caller.upload_of_owner(), headers, content=b"ab")


async def _end(caller: Caller) -> httpx2.Response:
    return await caller.tus("DELETE", await caller.upload_of_owner())


async def _offset(caller: Caller) -> httpx2.Response:
    return await caller.tus("HEAD", await caller.upload_of_owner())


async def _create(caller: Caller) -> httpx2.Response:
    return await caller.tus("POST", headers={"Upload-Length": "4", "Upload-Metadata": metadata(filename="new.bin")})


async def _create_replacing(caller: Caller) -> httpx2.Response:
    fields = metadata(filename="a.txt", onConflict="replace")
    return await caller.tus("POST", headers={"Upload-Length": "4", "Upload-Metadata": fields})


async def _create_part(caller: Caller) -> httpx2.Response:
    return await caller.tus("POST", headers={"Upload-Length": "4", "Upload-Concat": "partial"})


def _files(method: str, path: str = "", **options: Any) -> Callable[[Caller], Awaitable[httpx2.Response]]:
    return lambda caller: caller.file(method, path, **options)


def _asks(method: str, path: str, **options: Any) -> Callable[[Caller], Awaitable[httpx2.Response]]:
    return lambda caller: caller.ask(method, path, **options)


def _case(name: str, call: Callable[[Caller], Awaitable[httpx2.Response]], *needs: Any) -> Case:
    return Case(name, frozenset(needs), call)


LIST, DOWNLOAD, UPLOAD = Right.LIST, Right.DOWNLOAD, Right.UPLOAD
REPLACE, DELETE = Right.REPLACE, Right.DELETE

CASES = [
    _case("list", _files("GET", params={"action": "LIST"}), LIST),
    _case("walk", _files("GET", params={"recursive": "true"}, headers={"Accept": "application/x-ndjson"}), LIST),
    _case("search", _files("GET", params={"action": "SEARCH", "name": "a"}), LIST),
    _case("stat", _files("GET", "a.txt", params={"action": "STAT"}), LIST),
    _case("download", _files("GET", "a.txt", params={"action": "DOWNLOAD"}), DOWNLOAD),
    _case("head", _files("HEAD", "a.txt", params={"action": "DOWNLOAD"}), DOWNLOAD),
    _case("zip", _files("GET", "folder", params={"action": "ZIP"}), LIST, DOWNLOAD),
    _case("zip of some", _files("POST", params={"action": "ZIP"}, json={"paths": ["a.txt"]}), DOWNLOAD),
    _case("upload", _files("POST", files=[("data", ("new.txt", b"new"))]), UPLOAD),
    _case("put", _files("PUT", "put.txt", content=b"x", headers={"If-None-Match": "*"}), UPLOAD),
    _case("replace", _files("PUT", "a.txt", content=b"x", params={"onConflict": "replace"}), UPLOAD, REPLACE),
    _case("mkdir", _files("POST", "made", params={"action": "MKDIR"}), UPLOAD),
    _case("copy", _files("POST", "a.txt", params={"action": "COPY", "target": "/c.txt"}), DOWNLOAD, UPLOAD),
    _case("move", _files("POST", "a.txt", params={"action": "MOVE", "target": "/m.txt"}), UPLOAD, REPLACE, DELETE),
    _case("delete", _files("DELETE", "a.txt"), DELETE),
    _case("ticket", _files("POST", "a.txt", params={"action": "TICKET"}), DOWNLOAD, SESSION),
    _case("tus create", _create, UPLOAD),
    _case("tus create, replacing", _create_replacing, UPLOAD, REPLACE),
    _case("tus create a part", _create_part, UPLOAD),
    _case("tus append to the owner's", _append, UPLOAD),
    _case("tus offset of the owner's", _offset, UPLOAD),
    _case("tus end the owner's", _end, UPLOAD),
    _case("who am I", _asks("GET", "/backend/session")),
    _case("own account", _asks("GET", ACCOUNT), SESSION),
    _case("change the password", _asks("POST", PASSWORD, json={"oldPassword": "", "newPassword": ""}), SESSION),
    _case("list sessions", _asks("GET", SESSIONS), SESSION),
    _case("end other sessions", _asks("DELETE", SESSIONS), SESSION),
    _case("end a session", _asks("DELETE", f"{SESSIONS}/{'0' * 32}"), SESSION),
    _case("list keys", _asks("GET", KEYS), SESSION),
    _case("make a key", _asks("POST", KEYS, json={"name": "another"}), SESSION),
    _case("end a key", _asks("DELETE", f"{KEYS}/0123456789abcdef"), SESSION),
    _case("sign out", _asks("POST", "/backend/logout"), SESSION),
]


@dataclass(frozen=True)
class Actor:
    has: frozenset[Any]
    headers: Callable[[Gateway, ApiKeys], Awaitable[dict[str, str]]]


async def _user(gateway: Gateway, _: ApiKeys) -> dict[str, str]:
    return await gateway.sign_in()


def _key(*rights: Right, folder: str = "/", basic: bool = False) -> Actor:
    async def headers(gateway: Gateway, keys: ApiKeys) -> dict[str, str]:
        scope = KeyScope("key", frozenset(rights), Path.parse(folder))
        text = (await keys.add(await gateway.users.get("web"), scope)).text
        if basic:
            return {"Authorization": httpx2.BasicAuth("web", text)._auth_header}
        return {"Authorization": f"Bearer {text}"}

    return Actor(frozenset(rights), headers)


ACTORS = {
    "user": Actor(DEFAULT_RIGHTS | {SESSION}, _user),
    "key with all rights": _key(*DEFAULT_RIGHTS),
    "key as a Basic password": _key(*DEFAULT_RIGHTS, basic=True),
    "key to list": _key(LIST),
    "key to download": _key(DOWNLOAD),
    "key to upload": _key(UPLOAD),
    "key to read": _key(LIST, DOWNLOAD),
    "key to upload and replace": _key(UPLOAD, REPLACE),
    "key to upload and delete": _key(UPLOAD, DELETE),
    "key to overwrite": _key(UPLOAD, REPLACE, DELETE),
}


@pytest.mark.parametrize("name", ACTORS)
async def test_every_operation(open_gateway: OpenGateway, name: str) -> None:
    gateway = await open_gateway()
    actor = ACTORS[name]
    database = Database(gateway.settings.database_url)
    keys = ApiKeys(database)
    try:
        wrong = []
        for case in CASES:
            gateway.put("a.txt")
            gateway.put("folder/b.txt")
            caller = Caller(gateway, await actor.headers(gateway, keys), await gateway.sign_in())
            answer = await case.call(caller)
            may, allowed = case.needs <= actor.has, answer.status_code not in (401, 403)
            if may != allowed or answer.status_code >= 500:
                wrong.append(f"{case.name}: {answer.status_code}, {'may' if may else 'may not'}")
            for left in ("c.txt", "m.txt", "put.txt", "new.txt"):
                (gateway.files / left).unlink(missing_ok=True)
            if (gateway.files / "made").exists():
                (gateway.files / "made").rmdir()
        assert wrong == []
    finally:
        await keys.close()
        await database.close()


async def test_a_key_of_a_folder_sees_nothing_else(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway()
    gateway.put("secret.txt")
    gateway.put("in/box/a.txt")
    database = Database(gateway.settings.database_url)
    keys = ApiKeys(database)
    key = Caller(gateway, await _key(*DEFAULT_RIGHTS, folder="/in/box").headers(gateway, keys), await gateway.sign_in())
    await keys.close()
    await database.close()
    listed = (await key.file("GET")).json()["content"]
    assert [entry["absolutePath"] for entry in listed] == ["/", "/a.txt"]
    assert (await key.file("GET", "secret.txt")).status_code == 404
    assert (await key.ask("GET", address("") + "/../secret.txt")).status_code in (400, 404)
    assert (await key.file("PUT", "new.txt", content=b"x")).status_code == 201
    assert (gateway.files / "in/box/new.txt").read_bytes() == b"x"
    moved = await key.file("POST", "new.txt", params={"action": "MOVE", "target": "/moved.txt"})
    assert moved.status_code in (200, 201, 204)
    assert (gateway.files / "in/box/moved.txt").exists()
    # Neither the owner's uploads, nor the cursors and the answers that the owner got.
    for call in (_append, _end, _offset):
        assert (await call(key)).status_code == 404
    owner = Caller(gateway, key.owner)
    for number in range(3):
        gateway.put(f"{number}.txt")
    page = (await owner.file("GET", params={"size": 1})).json()
    stolen = await key.file("GET", params={"size": 1, "cursor": page["nextCursor"]})
    assert stolen.status_code == 400
    once = {"Idempotency-Key": "same"}
    assert (await owner.file("PUT", "once.txt", content=b"1", headers=once)).status_code == 201
    mine = await key.file("PUT", "once.txt", content=b"2", headers=once)
    assert mine.status_code == 201
    assert "Idempotency-Replayed" not in mine.headers
    assert (gateway.files / "in/box/once.txt").read_bytes() == b"2"
