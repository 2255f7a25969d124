"""API keys by REST: how they are made, shown, used, throttled and ended, and what is written of them."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from portico.accounts.api_keys import new_text
from portico.accounts.throttle import CREDENTIAL_FAILURES
from portico.api.account import KEYS
from portico.operations.actors import actor

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, Clock, OpenGateway
from .gateways import Gateway, address

pytestmark = SHARES_GATEWAY


async def make(gateway: Gateway, **scope: Any) -> tuple[str, dict[str, Any]]:
    """A new key, and what was said of it."""
    answer = await gateway.client.post(KEYS, headers=await gateway.sign_in(), json={"name": "ci", **scope})
    assert answer.status_code == 201, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    return body.pop("key"), body


async def ask(gateway: Gateway, key: str, method: str = "GET", path: str = address(""), **more: Any) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}", **more.pop("headers", {})}
    return await gateway.client.request(method, path, headers=headers, **more)


@OWN_GATEWAY
async def test_a_key_is_made_shown_once_used_and_ended(
    open_gateway: OpenGateway, log_stream: io.StringIO, clock: Clock
) -> None:
    gateway = await open_gateway(**{"audit.file": "audit.log"})
    key, made = await make(
        gateway, rights=["upload", "list"], folder="in/", addresses=["127.0.0.0/8"], expiresAt="2999-01-01T00:00:00Z"
    )
    assert made == {
        "id": made["id"],
        "name": "ci",
        "rights": ["list", "upload"],
        "folder": "/in",
        "addresses": ["127.0.0.0/8"],
        "createdAt": made["createdAt"],
        "expiresAt": "2999-01-01T00:00:00.000Z",
        "lastUsedAt": None,
        "lastUsedFrom": None,
    }
    session = await ask(gateway, key, path="/backend/session")
    assert session.json() == {
        "username": "web",
        "rights": ["list", "upload"],
        "mounts": [{"path": "/", "rights": ["list", "upload"]}],
        "key": {"id": made["id"], "name": "ci", "folder": "/in"},
    }
    assert (await ask(gateway, key, "PUT", address("a.txt"), content=b"x")).status_code == 201
    assert (gateway.files / "in/a.txt").read_bytes() == b"x"

    async def shown() -> list[dict[str, Any]]:
        answer = await gateway.client.get(KEYS, headers=await gateway.sign_in())
        assert key not in answer.text
        keys: list[dict[str, Any]] = answer.json()["content"]
        return keys

    while not (listed := await shown())[0]["lastUsedAt"]:
        await asyncio.sleep(0.01)
    assert listed == [{**made, "lastUsedAt": listed[0]["lastUsedAt"], "lastUsedFrom": "127.0.0.1"}]
    for name, wanted in (("", 200), ("WEB", 200), ("reader", 401)):
        basic = await gateway.client.get(address(""), auth=(name, key))
        assert basic.status_code == wanted
    ended = await gateway.client.delete(f"{KEYS}/{made['id']}", headers=await gateway.sign_in("reader"))
    assert ended.status_code == 404
    ended = await gateway.client.delete(f"{KEYS}/{made['id']}", headers=await gateway.sign_in())
    assert (ended.status_code, await shown()) == (204, [])
    answer = await ask(gateway, key)
    assert (answer.status_code, answer.json()["code"]) == (401, "not-signed-in")
    audit = (gateway.settings.home / "audit.log").read_text()
    lines = [line for line in audit.splitlines() if made["id"] in line]
    assert [line.split('"action":"')[1].split('"')[0] for line in lines] == ["key.add", "upload", "key.end"]
    assert '"key_name":"ci","folder":"/in"' in lines[1]
    for text in (audit, log_stream.getvalue(), answer.text):
        assert key[3:-6] not in text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": ""}, 400),
        ({"name": "x", "rights": []}, 400),
        ({"name": "x", "rights": ["fly"]}, 400),
        ({"name": "x", "rights": ["upload"]}, 400),  # which this user has not
        ({"name": "x", "folder": "/../y"}, 400),
        ({"name": "x", "addresses": ["everywhere"]}, 400),
        ({"name": "x", "expiresAt": "soon"}, 400),
        ({"name": "x", "expiresAt": "2001-01-01T00:00:00Z"}, 400),
        ({"name": "x", "scope": "all"}, 400),
        ({"name": "x"}, 201),
    ],
)
async def test_what_a_key_can_be(gateway: Gateway, body: dict[str, Any], status: int) -> None:
    answer = await gateway.client.post(KEYS, headers=await gateway.sign_in("reader"), json=body)
    assert answer.status_code == status, answer.text


async def test_wrong_keys_are_throttled_and_right_ones_are_not(gateway: Gateway) -> None:
    key, _ = await make(gateway)
    malformed = await ask(gateway, key[:-1] + ("x" if key[-1] != "x" else "y"))
    assert (malformed.status_code, malformed.headers["WWW-Authenticate"]) == (401, 'Bearer realm="portico"')
    answers = [(await ask(gateway, new_text())).status_code for _ in range(CREDENTIAL_FAILURES + 3)]
    assert answers[:CREDENTIAL_FAILURES] == [401] * CREDENTIAL_FAILURES
    assert 429 in answers[CREDENTIAL_FAILURES:]
    assert (await ask(gateway, key)).status_code == 200


async def test_a_key_that_ends_during_an_upload_stores_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "TRUSTED_SECONDS", 0.0)
    key, made = await make(gateway)

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        ended = await gateway.client.delete(f"{KEYS}/{made['id']}", headers=await gateway.sign_in())
        assert ended.status_code == 204
        yield b"last"

    answer = await ask(gateway, key, "PUT", address("a.txt"), content=body())
    assert (answer.status_code, answer.json()["code"]) == (401, "not-signed-in")
    assert not list(gateway.files.iterdir())
    assert not gateway.left_over


@OWN_GATEWAY
async def test_a_key_is_used_from_where_it_may_be(gateway: Gateway, clock: Clock) -> None:
    key, _ = await make(gateway, addresses=["10.0.0.0/8"])
    answer = await ask(gateway, key)
    assert (answer.status_code, answer.json()["code"]) == (403, "address-not-allowed")
    key, _ = await make(gateway, rights=["list"])
    assert (await ask(gateway, key)).status_code == 200
    await gateway.users.change("web", rights=[])
    clock.advance(1)
    assert (await ask(gateway, key)).status_code == 403
    await gateway.users.change("web", disabled=True)
    clock.advance(1)
    assert (await ask(gateway, key)).status_code == 401
