"""Share links: their limits and passwords, and the mistakes of others."""

import asyncio
import io
import sqlite3
from collections.abc import AsyncIterator

import pytest

from portico.accounts.passwords import Passwords
from portico.accounts.throttle import CREDENTIAL_FAILURES
from portico.api.shares import SHARE_SESSIONS

from .conftest import Clock
from .gateways import Gateway
from .shares import metadata, share


async def test_limits(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    shared = await share(gateway, "/box", "both", maxUploads=2, maxBytes=10, types=["txt", "image/*"], maxDownloads=1)
    guest = await shared.guest()
    assert (await guest.put("a.exe")).json()["code"] == "unsupported-media-type"
    assert (await guest.put("big.txt", b"x" * 11)).json()["code"] == "limit-reached"
    assert (await guest.put("big.txt", content=_chunks(b"x" * 11))).json()["code"] == "too-large"
    assert (await shared.show())["uploads"] == 0
    assert (await guest.put("a.txt", b"x" * 6)).status_code == 201
    assert (await guest.put("b.png", b"x" * 5)).status_code == 403
    assert (await guest.put("b.png", b"x" * 4)).status_code == 201
    assert (await guest.put("c.txt", b"")).json()["code"] == "limit-reached"
    headers = {"Upload-Length": "0", "Upload-Metadata": metadata(filename="d.txt")}
    assert (await guest.tus("POST", headers=headers)).status_code == 403
    shown = await shared.show()
    assert (shown["uploads"], shown["bytes"], shown["state"]) == (2, 10, "open")
    # Ranges of one file are one download; another file, or an archive, is another one.
    for span in ("bytes=0-1", "bytes=2-3", "bytes=0-"):
        assert (await guest.call("GET", "a.txt", headers={"Range": span})).status_code == 206
    assert (await guest.call("GET", "b.png")).json()["code"] == "limit-reached"
    assert (await guest.call("GET", "", params={"action": "ZIP"})).json()["code"] == "limit-reached"
    assert (await guest.call("HEAD", "b.png")).status_code == 200
    assert (await shared.show())["downloads"] == 1
    assert (await shared.open()).json()["code"] == "limit-reached"


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_a_race_for_the_last_downloads(gateway: Gateway) -> None:
    gateway.put("box/a.txt", b"content")
    shared = await share(gateway, maxDownloads=5)
    guests = [await shared.guest() for _ in range(20)]
    # Each asks twice at the same time: that is one download.
    answers = await asyncio.gather(*(guest.call("GET", "a.txt") for guest in guests * 2))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(200), statuses.count(403)) == (10, 30)
    assert (await shared.show())["downloads"] == 5


async def test_a_password_is_asked_by_everything_and_throttled(gateway: Gateway, log: io.StringIO) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway, password="a good password", title="For you", note="Hello")
    assert "password" not in shared.body
    assert shared.body["hasPassword"]
    asked = await shared.open()
    assert (asked.status_code, asked.json()["needs"]) == (403, ["password"])
    assert "For you" not in asked.text
    # The address of the link is no way around it, nor is it a token.
    for header in ({"Authorization": f"Bearer {shared.token}"}, {}):
        assert (await gateway.client.get("/backend/1.0.0/filesystem/a.txt", headers=header)).status_code == 401
    page = await gateway.client.get(f"/s/{shared.token}")
    assert page.status_code == 200
    assert "For you" not in page.text
    for _ in range(10):
        wrong = await shared.open(password="a bad password")
        assert (wrong.status_code, wrong.json()["code"]) == (403, "wrong-password")
    assert (await shared.open(password="a good password")).status_code == 429
    other = await share(gateway, password="another password")
    guest = await other.guest(password="another password")
    assert (await guest.call("GET", "a.txt")).status_code == 200
    assert {access["action"] for access in await shared.accesses()} == {"wrong-password"}
    # Nothing secret is written down.
    written = log.getvalue() + (gateway.settings.home / "audit.log").read_text()
    database = "\n".join(sqlite3.connect(gateway.settings.home / "portico.db").iterdump())
    for secret in (shared.token, other.token, guest.visit["token"], "another password", "a good password"):
        assert secret not in written
        assert secret not in database
    assert '"path":"/s/…"' in written.replace(" ", "")
    assert other.body["id"] in (gateway.settings.home / "audit.log").read_text()


async def test_guesses_of_links_are_throttled(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway)
    client = gateway.client
    for number in range(CREDENTIAL_FAILURES // 2):
        assert (await client.get(f"/s/{number}")).status_code == 404
        opened = await client.post(SHARE_SESSIONS, json={"link": f"{number}"})
        assert opened.status_code == 404
    # One is answered still, every few seconds.
    assert (await client.post(SHARE_SESSIONS, json={"link": "x"})).status_code == 404
    refused = await client.post(SHARE_SESSIONS, json={"link": "x"})
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
    assert "administrator" not in refused.text
    page = await client.get("/s/x")
    assert (page.status_code, page.headers["Retry-After"]) == (429, refused.headers["Retry-After"])
    # Others at that address are not kept out, and a wrong password is counted by itself.
    assert (await shared.open()).status_code == 201
    clock.advance(16 * 60)
    assert (await client.get("/s/x")).status_code == 404


async def test_a_password_that_no_link_asks_for_costs_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway)
    monkeypatch.setattr(Passwords, "verify", None)
    assert (await shared.open(password="needless")).status_code == 201
