import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from portico.store import journal
from portico.store.database import Database

from ..journals import lines_of
from .conftest import Clock, OpenGateway
from .gateways import CLIENT, Gateway, Step, address, form, named

REQUIRED = {"audit.required": "true"}


def lines(gateway: Gateway) -> list[dict[str, Any]]:
    file = gateway.settings.home / "audit.log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def reported(gateway: Gateway) -> list[tuple[str, str | None, str]]:
    return [(line["action"], line.get("path"), line["outcome"]) for line in lines(gateway)]


async def refresh(gateway: Gateway, token: str) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": token}
    return await gateway.client.post("/backend/login", data=form, auth=CLIENT)


def break_log(gateway: Gateway) -> None:
    file = gateway.settings.home / "audit.log"
    file.unlink(missing_ok=True)
    file.mkdir()


def make_log_writable(gateway: Gateway) -> None:
    (gateway.settings.home / "audit.log").rmdir()


async def test_sign_ins_good_and_bad(gateway: Gateway, clock: Clock) -> None:
    response = await gateway.login()
    await gateway.login(password="wrong password")
    await gateway.login(username="nobody")
    await gateway.login(username="a password?")
    tokens = response.json()
    credentials = {"Authorization": f"Bearer {tokens['access_token']}"}
    renewed = (await refresh(gateway, tokens["refresh_token"])).json()
    await refresh(gateway, "never was a token")
    clock.advance(61)
    assert (await refresh(gateway, tokens["refresh_token"])).status_code == 400
    assert (await gateway.client.post("/backend/logout", headers=credentials)).status_code == 401
    assert (await gateway.client.post("/backend/logout", headers=await gateway.sign_in())).status_code == 204
    assert [(line["action"], line.get("user"), line["outcome"]) for line in lines(gateway)] == [
        ("sign-in", "web", "done"),
        ("sign-in", "web", "wrong-password"),
        ("sign-in", "nobody", "wrong-password"),
        ("sign-in", None, "wrong-password"),
        ("refresh", "web", "done"),
        ("refresh", "web", "token-reused"),
        ("sign-out", "web", "done"),
    ]
    assert lines(gateway)[0]["request_id"] == response.headers["X-Request-Id"]
    opened = (await gateway.login()).json()
    credentials = {"Authorization": f"Bearer {opened['access_token']}"}
    assert (await gateway.client.post("/backend/logout", headers=credentials)).status_code == 204
    assert len({line["session"] for line in lines(gateway)[-2:]}) == 1
    assert all(line["client"] == "127.0.0.1" for line in lines(gateway))
    text = (gateway.settings.home / "audit.log").read_text()
    for secret in (
        "wrong password",
        "a password?",
        *(pair[f"{kind}_token"] for pair in (tokens, renewed) for kind in ("access", "refresh")),
    ):
        assert secret not in text


async def test_who_is_turned_away_unheard_has_no_line(gateway: Gateway) -> None:
    for _ in range(12):
        await gateway.login(password="wrong password")
    assert [line["outcome"] for line in lines(gateway)] == ["wrong-password"] * 10
    counted = gateway.metrics.sign_ins
    assert {labels: numbers[0] for labels, numbers in counted.items()} == {
        ("wrong-password",): 10,
        ("too-many-requests",): 2,
    }


async def test_every_change_has_a_line(gateway: Gateway) -> None:
    await gateway.upload("in", {"a.txt": b"12345"})
    await gateway.upload("in", {"b.txt": b""})
    await gateway.upload("in", {"a.txt": b"1"}, onConflict="rename")
    await gateway.call("POST", "new", params={"action": "MKDIR"})
    await gateway.call("POST", "in/a.txt", params={"action": "COPY", "target": "/new/c d"})
    await gateway.call("POST", "in/b.txt", params={"action": "MOVE", "target": "/new/c d", "onConflict": "rename"})
    await gateway.call("DELETE", "new", params={"recursive": "true"})
    assert reported(gateway) == [
        ("upload", "/in/a.txt", "done"),
        ("upload", "/in/b.txt", "done"),
        ("upload", "/in/a (1).txt", "done"),
        ("mkdir", "/new", "done"),
        ("copy", "/in/a.txt", "done"),
        ("move", "/in/b.txt", "done"),
        ("delete", "/new", "done"),
    ]
    found = lines(gateway)
    assert [line["bytes"] for line in found[:3]] == [5, 0, 1]
    assert [line["target"] for line in found[4:6]] == ["/new/c d", "/new/c d (1)"]
    assert len({line["request_id"] for line in found}) == 7
    assert {line["user"] for line in found} == {"web"}


async def test_what_only_looks_has_no_line(gateway: Gateway) -> None:
    gateway.put("a")
    for method, parameters in (
        ("GET", {"action": "STAT"}),
        ("HEAD", {}),
        ("POST", {"action": "TICKET"}),
        ("POST", {"action": "EAT"}),
        ("DELETE", {"recursive": "perhaps"}),
    ):
        await gateway.call(method, "a", params=parameters)
    await gateway.list()
    assert (await gateway.client.delete(address("a"))).status_code == 401
    assert lines(gateway) == []


async def test_what_was_refused_or_failed_says_so(gateway: Gateway) -> None:
    gateway.put("a")
    await gateway.call("DELETE", "a", user="reader")
    await gateway.call("DELETE", "none")
    await gateway.call("POST", "a", params={"action": "MKDIR"})
    await gateway.upload("", {"b": b"1"}, user="reader")
    await gateway.upload("", {"a": b"1"}, user="writer")
    await gateway.upload("", {"b": b"1"}, user="writer", onConflict="replace")
    await gateway.send_form(b"--frontier--\r\n")
    await gateway.send_form(form(named("x"), named("x"), named("y")))
    await gateway.send_form(form(named("z"))[:-12])
    assert reported(gateway) == [
        ("delete", "/a", "forbidden"),
        ("delete", "/none", "not-found"),
        ("mkdir", "/a", "not-a-folder"),
        ("upload", "/", "forbidden"),
        ("upload", "/a", "already-exists"),
        ("upload", "/", "forbidden"),
        ("upload", "/", "invalid-request"),
        ("upload", "/x", "done"),
        ("upload", "/x", "invalid-request"),
        ("upload", "/z", "invalid-request"),
    ]


async def test_a_client_that_vanishes_leaves_a_line(gateway: Gateway) -> None:
    headers = [*(await gateway.sign_in()).items(), ("Content-Type", "multipart/form-data; boundary=frontier")]
    steps: list[Step] = [form(named("a", b"x" * 100))[:-40], ConnectionError()]
    await gateway.raw("POST", address("").encode(), headers, steps)
    (line,) = lines(gateway)
    assert (line["path"], line["outcome"]) == ("/a", "invalid-request")
    assert 0 < line["bytes"] <= 100


async def test_where_it_is_required_a_change_is_announced(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**REQUIRED)
    await gateway.upload("", {"a": b"1"})
    await gateway.call("DELETE", "a")
    await gateway.login()
    assert reported(gateway) == [
        ("upload", "/a", "begun"),
        ("upload", "/a", "done"),
        ("delete", "/a", "begun"),
        ("delete", "/a", "done"),
        ("sign-in", None, "done"),
    ]
    assert lines(gateway)[0]["bytes"] == 1


async def test_strangers_write_no_line_by_made_up_refresh_tokens(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**REQUIRED)
    ended = (await gateway.login()).json()["refresh_token"]
    assert (await refresh(gateway, ended)).status_code == 200
    await gateway.users.set_password("web", "another password")
    before = lines(gateway)
    statuses = {(await refresh(gateway, f"made up {number}")).status_code for number in range(5)}
    assert (await refresh(gateway, ended)).status_code == 400
    assert statuses == {400}
    assert lines(gateway) == before
    assert [(line["action"], line["user"], line["outcome"]) for line in before[1:]] == [
        ("refresh", "web", "begun"),
        ("refresh", "web", "done"),
    ]


async def test_where_it_is_required_a_stolen_refresh_token_has_a_beginning_and_an_outcome(
    open_gateway: OpenGateway, clock: Clock
) -> None:
    gateway = await open_gateway(**REQUIRED)
    stolen = (await gateway.login()).json()["refresh_token"]
    await refresh(gateway, stolen)
    clock.advance(61)
    assert (await refresh(gateway, stolen)).status_code == 400
    assert [(line["action"], line["user"], line["outcome"]) for line in lines(gateway)[3:]] == [
        ("refresh", "web", "begun"),
        ("refresh", "web", "token-reused"),
    ]


Ask = Callable[[Gateway], Any]
CHANGES: dict[str, Ask] = {
    "upload": lambda gateway: gateway.upload("", {"b": b"1"}),
    "replace": lambda gateway: gateway.upload("", {"a": b"1"}),
    "mkdir": lambda gateway: gateway.call("POST", "b", params={"action": "MKDIR"}),
    "copy": lambda gateway: gateway.call("POST", "a", params={"action": "COPY", "target": "/b"}),
    "move": lambda gateway: gateway.call("POST", "a", params={"action": "MOVE", "target": "/b"}),
    "delete": lambda gateway: gateway.call("DELETE", "a"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_where_it_is_required_nothing_changes_without_it(open_gateway: OpenGateway, change: str) -> None:
    gateway = await open_gateway(**REQUIRED)
    gateway.put("a", b"old")
    break_log(gateway)
    response = await CHANGES[change](gateway)
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert "Retry-After" in response.headers
    assert os.listdir(gateway.files) == ["a"]
    assert (gateway.files / "a").read_bytes() == b"old"
    assert gateway.left_over == []
    assert (await gateway.list()).status_code == 200
    assert (await gateway.call("GET", "a")).content == b"old"
    make_log_writable(gateway)
    assert (await CHANGES[change](gateway)).status_code in (201, 204)


async def test_where_it_is_required_a_log_that_breaks_during_an_upload_keeps_the_file_out(
    open_gateway: OpenGateway,
) -> None:
    gateway = await open_gateway(**REQUIRED)
    gateway.put("a", b"old")
    body = form(named("a", b"new"))
    headers = [*(await gateway.sign_in()).items(), ("Content-Type", "multipart/form-data; boundary=frontier")]

    async def break_now() -> None:
        break_log(gateway)

    answer = await gateway.raw("POST", address("").encode(), headers, [body[:-20], break_now, body[-20:]])
    assert (answer.status, answer.json()["failed"]) == (503, ["a"])
    assert (gateway.files / "a").read_bytes() == b"old"
    assert gateway.left_over == []


async def test_where_it_is_required_nobody_signs_in_or_out_without_it(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**REQUIRED)
    tokens = (await gateway.login()).json()
    credentials = {"Authorization": f"Bearer {tokens['access_token']}"}
    break_log(gateway)
    answers = [
        await gateway.login(),
        await gateway.login(password="wrong password"),
        await refresh(gateway, tokens["refresh_token"]),
    ]
    for answer in answers:  # and so nobody can guess unseen
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
    assert (await gateway.client.post("/backend/logout", headers=credentials)).status_code == 503
    assert (await gateway.client.get("/backend/session", headers=credentials)).status_code == 200
    make_log_writable(gateway)
    assert (await refresh(gateway, tokens["refresh_token"])).status_code == 200
    assert (lines(gateway)[0]["action"], lines(gateway)[0]["lost"]) == ("audit", 5)


async def test_otherwise_changes_go_on_without_it(gateway: Gateway) -> None:
    break_log(gateway)
    assert (await gateway.login()).status_code == 200
    assert (await gateway.upload("", {"a": b"1"})).status_code == 204
    assert gateway.metrics.lost_audit_lines[()] == [2]
    make_log_writable(gateway)
    assert (await gateway.call("DELETE", "a")).status_code == 204
    assert [(line["action"], line.get("lost")) for line in lines(gateway)] == [("audit", 2), ("delete", None)]


async def test_it_can_be_off(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"audit.log": "off", **REQUIRED})
    assert (await gateway.upload("", {"a": b"1"})).status_code == 204
    assert lines(gateway) == []


# In the journal


async def in_database(gateway: Gateway) -> list[tuple[str, str | None, str]]:
    database = Database(gateway.settings.database_url)
    found = await lines_of(database)
    await database.close()
    return [(line["action"], line.get("path"), line["outcome"]) for line in found]


async def test_where_lines_are_required_the_journal_has_them_before_the_answer(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"audit.log": "off", **REQUIRED})
    assert (await gateway.login()).status_code == 200
    assert (await gateway.upload("", {"a.txt": b"x"})).status_code == 204
    assert (await gateway.call("DELETE", "a.txt")).status_code == 204
    assert await in_database(gateway) == [
        ("sign-in", None, "done"),
        ("upload", "/a.txt", "done"),
        ("delete", "/a.txt", "done"),
    ]
    assert lines(gateway) == []


@pytest.mark.parametrize("change", CHANGES)
async def test_without_the_journal_no_file_is_changed(
    open_gateway: OpenGateway, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(journal, "_CLOSE_SECONDS", 0.1)
    gateway = await open_gateway()
    gateway.put("a", b"old")
    (gateway.settings.home / "portico.db-begun").write_text("not a folder")
    answer = await CHANGES[change](gateway)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "Retry-After" in answer.headers
    assert os.listdir(gateway.files) == ["a"]
    assert (gateway.files / "a").read_bytes() == b"old"
    assert gateway.left_over == []


async def test_lines_that_are_not_required_come_later(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway()
    assert (await gateway.upload("", {"a.txt": b"x"})).status_code == 204
    async with asyncio.timeout(60):
        while await in_database(gateway) != [("upload", "/a.txt", "done")]:
            await asyncio.sleep(0.01)
    assert reported(gateway) == [("upload", "/a.txt", "done")]
