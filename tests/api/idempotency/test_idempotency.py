"""A request that is sent again under its key: the same answer, and done once. On both databases."""

import asyncio
from typing import Any

import httpx2
import pytest

from portico.operations.files.files import Files
from portico.providers.local.provider import LocalProvider

from ..gateways import MULTIPART, Gateway, address, form, named
from .requests import KEY, content, is_replay, post, upload

HOUR = 3600


async def test_an_upload_is_stored_once_and_answered_twice(gateway: Gateway) -> None:
    first = await upload(gateway, onConflict="rename")
    second = await upload(gateway, onConflict="rename")
    assert (first.status_code, second.status_code) == (204, 204)
    assert not is_replay(first)
    assert is_replay(second)
    assert first.headers["Content-Location"] == second.headers["Content-Location"] == address("a.txt")
    assert content(gateway) == {"a.txt": b"content"}
    other = await upload(gateway, onConflict="rename", key={"Idempotency-Key": "another"})
    assert other.headers["Content-Location"].endswith("/a%20(1).txt")


async def test_a_body_is_replayed_too(gateway: Gateway) -> None:
    key = {**KEY, "Prefer": "return=representation"}
    first, second = [await upload(gateway, key=key) for _ in range(2)]
    assert first.json() == second.json()
    assert first.json()["content"][0]["absolutePath"] == "/a.txt"
    assert second.headers["Preference-Applied"] == "return=representation"
    assert second.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
async def test_a_transfer_is_done_once(gateway: Gateway, action: str) -> None:
    gateway.put("a")
    answers = [await post(gateway, "a", action=action, target="/b", onConflict="rename") for _ in range(3)]
    assert {(each.status_code, each.headers["Location"]) for each in answers} == {(201, address("b"))}
    assert sorted(content(gateway)) == (["b"] if action == "MOVE" else ["a", "b"])


async def test_a_deletion_and_a_folder(gateway: Gateway) -> None:
    gateway.put("a")
    for _ in range(2):
        assert (await gateway.call("DELETE", "a", headers=KEY)).status_code == 204
        assert (await post(gateway, "new", action="MKDIR")).status_code == 422
    folder = {"Idempotency-Key": "folder"}
    made = [
        await gateway.call("POST", "new?action=MKDIR".partition("?")[0], headers=folder, params={"action": "MKDIR"})
        for _ in range(2)
    ]
    assert [(each.status_code, is_replay(each)) for each in made] == [(201, False), (201, True)]


async def test_a_refusal_is_an_answer(gateway: Gateway) -> None:
    gateway.put("a.txt", b"old")
    first = await upload(gateway, onConflict="fail")
    (gateway.files / "a.txt").unlink()
    second = await upload(gateway, onConflict="fail")
    assert first.status_code == second.status_code == 409
    assert first.json() == second.json()
    assert is_replay(second)
    missing = {"Idempotency-Key": "missing"}
    answers = [await gateway.call("DELETE", "no", headers=missing) for _ in range(2)]
    assert [(each.status_code, is_replay(each)) for each in answers] == [(404, False), (404, True)]


async def test_another_request_under_the_key(sqlite_gateway: Gateway) -> None:
    gateway = sqlite_gateway
    assert (await upload(gateway)).status_code == 204
    for response in (
        await upload(gateway, b"of another length"),
        await upload(gateway, onConflict="fail"),
        await upload(gateway, key={**KEY, "Prefer": "return=representation"}),
        await upload(gateway, key={**KEY, "Content-MD5": "mgNkuembtIDdJeHwKEyFVQ=="}),
        await upload(gateway, key={**KEY, "If-Match": '"x"'}),
        await post(gateway, "", action="MKDIR"),
        await gateway.call("DELETE", "a.txt", headers=KEY),
    ):
        assert response.status_code == 422
        assert response.json()["code"] == "idempotency-key-reused"
    assert content(gateway) == {"a.txt": b"content"}
    # The key is the user's own, the boundary and the order of the query are of no importance.
    assert not is_replay(await upload(gateway, user="writer", onConflict="rename"))
    gateway.put("b")
    for query in ("action=COPY&target=/c", "target=/c&action=COPY"):
        credentials = await gateway.sign_in()
        headers = {**credentials, "Idempotency-Key": "order"}
        response = await gateway.client.post(f"{address('b')}?{query}", headers=headers)
        assert response.status_code == 201
    assert is_replay(response)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"x"', "x"),
        ("x", "x"),
        (r'"a\"b\\c"', r'a"b\c'),
        ("aZ09!#$%&'()*+-./:<=>?@[]^_`{|}~", "aZ09!#$%&'()*+-./:<=>?@[]^_`{|}~"),
        ("x" * 255, "x" * 255),
        ('"' + "x" * 255 + '"', "x" * 255),
    ],
)
def test_keys(text: str, same: str) -> None:
    from portico.api.idempotency import key_of

    assert key_of(text) == same


@pytest.mark.parametrize(
    "text", ["", '""', "x" * 256, "a b", '"a b"', 'a"b', '"a', '"a" ', '"a";p=1', "a,b", "ä", '"a\\b"']
)
async def test_malformed_keys(sqlite_gateway: Gateway, text: str) -> None:
    credentials = await sqlite_gateway.sign_in()
    headers = [*credentials.items(), ("Idempotency-Key", text)]
    answer = await sqlite_gateway.raw("DELETE", address("a").encode(), headers)
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")


async def test_a_key_that_is_sent_twice(sqlite_gateway: Gateway) -> None:
    credentials = await sqlite_gateway.sign_in()
    headers = [*credentials.items(), *(("Idempotency-Key", "x"),) * 2]
    assert (await sqlite_gateway.raw("DELETE", address("a").encode(), headers)).status == 400


async def test_nothing_is_stored_for_others(sqlite_gateway: Gateway) -> None:
    gateway = sqlite_gateway
    gateway.put("a")
    tickets = [await post(gateway, "a", action="TICKET") for _ in range(2)]
    assert tickets[0].json()["ticket"] != tickets[1].json()["ticket"]
    assert (await gateway.call("GET", "a", headers=KEY)).content == b"content"
    assert (await gateway.call("DELETE", "a", headers=KEY, user="reader")).status_code == 403
    answer = await gateway.client.delete(address("a"), headers=KEY)
    assert answer.status_code == 401
    assert (await gateway.call("DELETE", "a", headers=KEY)).status_code == 204


async def test_a_running_request(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.put("a")
    begun, go_on = asyncio.Event(), asyncio.Event()
    delete = LocalProvider.move_to_trash

    async def slow(*arguments: Any, **options: Any) -> None:
        begun.set()
        await go_on.wait()
        await delete(*arguments, **options)

    monkeypatch.setattr(LocalProvider, "move_to_trash", slow)
    running = asyncio.ensure_future(gateway.call("DELETE", "a", headers=KEY))
    await begun.wait()
    response = await gateway.call("DELETE", "a", headers=KEY)
    assert (response.status_code, response.json()["code"]) == (409, "request-running")
    assert int(response.headers["Retry-After"]) > 0
    go_on.set()
    assert (await running).status_code == 204
    assert is_replay(await gateway.call("DELETE", "a", headers=KEY))


async def test_of_many_at_once_one_is_carried_out(gateway: Gateway) -> None:
    async def until_answered() -> httpx2.Response:
        while (response := await upload(gateway, onConflict="rename")).status_code == 409:
            pass
        return response

    answers = await asyncio.gather(*(until_answered() for _ in range(8)))
    assert {each.status_code for each in answers} == {204}
    assert [is_replay(each) for each in answers].count(False) == 1
    assert content(gateway) == {"a.txt": b"content"}


async def test_the_body_of_a_repeated_request_is_read_but_not_stored(sqlite_gateway: Gateway) -> None:
    gateway = sqlite_gateway
    credentials = await gateway.sign_in()
    body = form(named("a.txt", b"x" * 2**20))
    headers = [*credentials.items(), *KEY.items(), ("Content-Type", MULTIPART), ("Content-Length", str(len(body)))]
    target = address("").encode()
    assert (await gateway.raw("POST", target, headers, [body])).status == 204
    (gateway.files / "a.txt").unlink()
    answer = await gateway.raw("POST", target, headers, [body[:1000], body[1000:]])
    assert (answer.status, answer.taken) == (204, len(body))
    assert answer.header("idempotency-replayed") == "true"
    # A client that waits is answered before it sends anything, and another request cannot follow.
    answer = await gateway.raw("POST", target, [*headers, ("Expect", "100-continue")], [body])
    assert (answer.status, answer.taken, answer.header("connection")) == (204, 0, "close")
    assert content(gateway) == {}
    assert gateway.left_over == []


async def test_an_upload_that_is_cut_off_is_not_an_answer(gateway: Gateway) -> None:
    credentials = await gateway.sign_in()
    body = form(named("a.txt"))
    headers = [*credentials.items(), *KEY.items(), ("Content-Type", MULTIPART), ("Content-Length", str(len(body)))]
    target = address("").encode() + b"?onConflict=fail"
    answer = await gateway.raw("POST", target, headers, [body[:-20], ConnectionError()])
    assert answer.status == 400
    answer = await gateway.raw("POST", target, headers, [body])
    assert answer.status == 204
    assert content(gateway) == {"a.txt": b"content"}


async def test_a_failure_of_the_storage_is_not_an_answer(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    from portico.model.errors import service_unavailable

    gateway.put("a")

    async def fail(*_: object, **__: object) -> None:
        raise service_unavailable("away", 1)

    with monkeypatch.context() as patched:
        patched.setattr(LocalProvider, "move", fail)
        assert (await post(gateway, "a", action="MOVE", target="/b")).status_code == 503
    response = await post(gateway, "a", action="MOVE", target="/b")
    assert response.status_code == 201
    assert not is_replay(response)
    assert sorted(content(gateway)) == ["b"]


async def test_a_bug_is_not_an_answer(sqlite_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(Files, "make_folder", fail)
        assert (await post(sqlite_gateway, "a", action="MKDIR")).status_code == 500
    assert (await post(sqlite_gateway, "a", action="MKDIR")).status_code == 201


async def test_a_session_says_how_long_keys_are_kept(sqlite_gateway: Gateway) -> None:
    response = await sqlite_gateway.client.get("/backend/session", headers=await sqlite_gateway.sign_in())
    assert response.headers["Idempotency-Key-Lifetime"] == str(24 * HOUR)
