"""The log line of a request: who made it, by which credential, for what, and why it was refused."""

import io
import json
from typing import Any

import pytest

from portico.api.account import KEYS
from portico.api.shares import LINKS
from portico.api.tus import UPLOADS

from .conftest import OpenGateway
from .gateways import CLIENT, Gateway, address
from .shares import SHARER, share

NEW = ("action", "connection", "key", "link", "guest", "ticket", "code")


@pytest.fixture
def log(log_stream: io.StringIO) -> io.StringIO:
    return log_stream


def last(log: io.StringIO) -> dict[str, Any]:
    """What the last line says beyond the request itself and its answer."""
    line = json.loads(log.getvalue().splitlines()[-1])
    assert line["event"] == "request"
    return {name: line[name] for name in ("user", *NEW) if name in line}


async def test_a_user(gateway: Gateway, log: io.StringIO) -> None:
    gateway.put("a")
    await gateway.call("GET", "a", params={"action": "DOWNLOAD"})
    assert last(log) == {"user": "web", "action": "download", "connection": "local"}
    await gateway.call("GET", "")
    assert last(log) == {"user": "web", "action": "list", "connection": "local"}


async def test_a_ticket(gateway: Gateway, log: io.StringIO) -> None:
    gateway.put("a")
    ticket = (await gateway.call("POST", "a", params={"action": "TICKET"})).json()["ticket"]
    await gateway.client.get(address("a"), params={"ticket": ticket})
    by_ticket = {"user": "web", "action": "download", "connection": "local", "ticket": True}
    assert last(log) == by_ticket
    await gateway.client.get(address("a"), params={"ticket": "unknown"})
    assert last(log) == {"action": "read", "ticket": True, "code": "not-signed-in"}
    assert ticket not in log.getvalue()


async def test_a_key(gateway: Gateway, log: io.StringIO) -> None:
    made = await gateway.client.post(KEYS, headers=await gateway.sign_in(), json={"name": "ci", "rights": ["list"]})
    key, id_ = made.json()["key"], made.json()["id"]
    by_key = {"user": "web", "key": id_, "connection": "local"}
    await gateway.client.get(address(""), headers={"Authorization": f"Bearer {key}"})
    assert last(log) == {**by_key, "action": "list"}
    await gateway.client.put(address("a"), headers={"Authorization": f"Bearer {key}"}, content=b"x")
    assert last(log) == {**by_key, "action": "upload", "code": "forbidden"}
    assert key not in log.getvalue()


async def test_a_guest(gateway: Gateway, log: io.StringIO) -> None:
    (gateway.files / "box").mkdir()
    gateway.put("box/a")
    link = await share(gateway, askName=True)
    await link.open()
    opening = {"user": SHARER, "link": link.body["id"], "action": "share-open"}
    assert last(log) == {**opening, "code": "more-needed"}
    guest = await link.guest(name="Ann Lee")
    by_link = {"user": SHARER, "link": link.body["id"], "guest": "Ann Lee"}
    assert last(log) == {**by_link, "action": "share-open"}
    await guest.call("GET", "a", params={"action": "DOWNLOAD"})
    assert last(log) == {**by_link, "action": "download", "connection": "local"}
    await guest.put("b")
    assert last(log) == {**by_link, "action": "upload", "connection": "local", "code": "forbidden"}
    assert link.token not in log.getvalue()
    assert guest.visit["token"] not in log.getvalue()


async def test_sign_ins(gateway: Gateway, log: io.StringIO) -> None:
    form = {"grant_type": "password", "username": "web", "password": "not the password"}
    await gateway.client.post("/backend/login", data=form, auth=CLIENT)
    assert last(log) == {"user": "web", "action": "sign-in", "code": "wrong-password"}
    await gateway.client.post("/backend/login", data=form, auth=("nobody", "x"))
    assert last(log) == {"action": "sign-in", "code": "invalid_client"}
    form = {"grant_type": "refresh_token", "refresh_token": "unknown"}
    await gateway.client.post("/backend/login", data=form, auth=CLIENT)
    assert last(log) == {"action": "refresh", "code": "not-signed-in"}
    assert "not the password" not in log.getvalue()


async def test_refusals(open_gateway: OpenGateway, log: io.StringIO) -> None:
    gateway = await open_gateway()
    await gateway.call("GET", "none", params={"action": "DOWNLOAD"})
    assert last(log) == {"user": "web", "action": "download", "connection": "local", "code": "not-found"}
    await gateway.client.get(address(""))
    assert last(log) == {"action": "read", "code": "not-signed-in"}
    await gateway.client.get("/s/none")
    assert last(log) == {"action": "other", "code": "not-found"}


async def test_every_action(gateway: Gateway, log: io.StringIO) -> None:
    headers = await gateway.sign_in(SHARER)
    trash, links = "/backend/1.0.0/trash", LINKS
    sent: list[tuple[str, str, str, dict[str, Any]]] = [
        ("list", "GET", address(""), {}),
        ("stat", "GET", address("a"), {"params": {"action": "STAT"}}),
        ("search", "GET", address(""), {"params": {"action": "SEARCH"}}),
        ("download", "GET", address("a"), {"params": {"action": "DOWNLOAD"}}),
        ("thumbnail", "GET", address("a"), {"params": {"action": "THUMBNAIL"}}),
        ("zip", "GET", address("a"), {"params": {"action": "ZIP"}}),
        ("zip", "POST", address(""), {"params": {"action": "ZIP"}, "json": {"paths": ["a"]}}),
        ("ticket", "POST", address("a"), {"params": {"action": "TICKET"}}),
        ("mkdir", "POST", address("new"), {"params": {"action": "MKDIR"}}),
        ("copy", "POST", address("a"), {"params": {"action": "COPY", "target": "/b"}}),
        ("move", "POST", address("b"), {"params": {"action": "MOVE", "target": "/c"}}),
        ("upload", "POST", address(""), {"files": [("data", ("d", b"x"))]}),
        ("upload", "PUT", address("d"), {"content": b"x"}),
        ("upload", "HEAD", f"{UPLOADS}/{'0' * 32}", {"headers": {**headers, "Tus-Resumable": "1.0.0"}}),
        ("delete", "DELETE", address("d"), {}),
        ("trash-list", "GET", trash, {}),
        ("restore", "POST", f"{trash}/none", {"params": {"action": "RESTORE"}}),
        ("trash-remove", "DELETE", f"{trash}/none", {}),
        ("trash-empty", "DELETE", trash, {}),
        ("share-list", "GET", links, {}),
        ("share-add", "POST", links, {"json": {"path": "/a"}}),
        ("share-list", "GET", f"{links}/none", {}),
        ("share-change", "PATCH", f"{links}/none", {"json": {}}),
        ("share-change", "POST", f"{links}/none/address", {}),
        ("share-log", "GET", f"{links}/none/accesses", {}),
        ("share-end", "DELETE", f"{links}/none", {}),
        ("jobs", "GET", "/backend/1.0.0/jobs", {}),
        ("account", "GET", KEYS, {}),
        ("session", "GET", "/backend/session", {}),
        ("sign-out", "POST", "/backend/logout", {}),
    ]
    gateway.put("a")
    for action, method, url, options in sent:
        await gateway.client.request(method, url, **{"headers": headers, **options})
        assert last(log)["action"] == action, (method, url)


async def test_a_replayed_refusal(gateway: Gateway, log: io.StringIO) -> None:
    headers = {**await gateway.sign_in(), "Idempotency-Key": '"once"'}
    for _ in range(2):
        await gateway.client.delete(address("none"), headers=headers)
        assert last(log)["code"] == "not-found"
        assert last(log)["action"] == "delete"
