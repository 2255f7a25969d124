"""Share links: their limits, their end, what guests must not see, and the mistakes of others."""

import asyncio
import io
import json
import sqlite3
from base64 import b64encode, urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from portico import clock as clock_module
from portico import timestamps
from portico.accounts.api_keys import ApiKeys, KeyScope
from portico.accounts.passwords import Passwords
from portico.accounts.share_links import ShareLinks
from portico.accounts.throttle import CREDENTIAL_FAILURES
from portico.api.shares import LINKS, SHARE_SESSIONS
from portico.errors import Unavailable
from portico.paths import Path
from portico.rights import Right
from portico.store.database import Database

from .conftest import Clock, OpenGateway
from .gateways import Gateway, address
from .shares import SHARER, GuestClient, owner, share


def metadata(**fields: str) -> str:
    return ",".join(f"{name} {b64encode(value.encode()).decode()}" for name, value in fields.items())


async def test_a_request_shows_a_sender_nothing_of_others(gateway: Gateway) -> None:
    gateway.put("box/report.pdf", b"of somebody else")
    shared = await share(gateway, "/box", "request", askName=True)
    assert (await shared.open()).json()["needs"] == ["name"]
    guest = await shared.guest(name="Anna")
    assert guest.visit["rights"] == ["upload"]
    assert guest.visit["name"] == ""  # not even that of the folder

    stored = await guest.put("report.pdf", b"of Anna", headers={"Prefer": "return=representation"})
    assert stored.status_code == 201
    (entry,) = stored.json()["content"]
    assert (entry["name"], entry["absolutePath"]) == ("report.pdf", "/report.pdf")
    assert entry["receipt"]
    # A condition tells nothing, either.
    for condition in ({"If-None-Match": "*"}, {"Expect": "100-continue"}):
        again = await guest.put("report.pdf", b"again", headers=condition)
        assert (again.status_code, again.headers["Content-Location"][-10:]) == (201, "report.pdf")
    assert (await guest.put("report.pdf", headers={"If-Match": "*"})).status_code == 412
    assert (await guest.put("other.pdf", headers={"If-Match": "*"})).status_code == 412
    form = await guest.call("POST", "", files=[("data", ("report.pdf", b"by form"))])
    assert form.headers["Content-Location"].endswith("/report.pdf")
    headers = {"Upload-Length": "6", "Upload-Metadata": metadata(filename="report.pdf", onConflict="fail")}
    begun = await guest.tus("POST", headers=headers)
    where = begun.headers["Location"]
    content = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    done = await guest.tus("PATCH", where, headers=content, content=b"by tus")
    assert done.headers["Content-Location"].endswith("/report.pdf")

    # Another guest, and even the owner, have nothing to do with that upload.
    other = await shared.guest(name="Bert")
    assert (await other.tus("HEAD", where)).status_code == 404
    own = await gateway.client.head(
        where, headers={**await gateway.sign_in(SHARER), "Tus-Resumable": "1.0.0"}
    )
    assert own.status_code == 404
    # The owner sees who sent what.
    assert len(list((gateway.files / "box").iterdir())) == 6
    assert (gateway.files / "box/report.pdf").read_bytes() == b"of somebody else"
    uploads = [access for access in await shared.accesses() if access["action"] == "upload"]
    assert [(each["name"], each["path"]) for each in uploads][-1] == ("Anna", "/box/report (1).pdf")
    assert (await shared.show())["uploads"] == 5


async def test_who_is_asked_for_a_missing_right(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    guest = await (await share(gateway, kind="request", askName=False)).guest()
    refused = await guest.call("GET", "a.txt")
    assert refused.json()["detail"] == "This link does not give the right 'download'; ask where you got it."
    header = await _key(gateway, Right.LIST)
    for answer in (
        await gateway.client.put(address("a.txt"), headers=header, content=b"x"),
        await gateway.client.post(LINKS, headers=header, json={"path": "/box"}),
    ):
        assert answer.status_code == 403
        assert "use another key" in answer.json()["detail"]


async def test_each_sender_has_a_folder(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    shared = await share(gateway, "/box", "request", folderPerSender=True)
    for number in range(3):
        guest = await shared.guest(name="Anna / ../ <b>" if number else "Anna")
        assert guest.visit["hasOwnFolder"]
        assert (await guest.put("sub/file.txt")).status_code == 201
    assert sorted(each.name for each in (gateway.files / "box").iterdir()) == [
        "Anna",
        "Anna _ .._ _b_",
        "Anna _ .._ _b_ (1)",
    ]
    shown = await gateway.client.post(
        SHARE_SESSIONS,
        json={"link": f"https://files.example.com/s/{shared.token}?a=/b#/sub/c", "name": "Eve"},
    )
    assert shown.status_code == 201
    for unfit in ("a\u202eb", "x" * 101, "\u200d\u0007", "\u200d\u200c", "\u200d \u3164", "\u0301"):
        assert (await shared.open(name=unfit)).status_code == 400
    persian = "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"
    assert (await (await shared.guest(name=persian)).put("file.txt")).status_code == 201
    # A name may have more bytes than a folder.
    long = "\N{GRINNING FACE}" * 100
    for _ in range(2):
        assert (await (await shared.guest(name=long)).put("file.txt")).status_code == 201
    assert {access["name"] for access in (await shared.accesses())[:4]} == {long}
    # The receipt says who sent it.
    (entry,) = (await guest.put("x", headers={"Prefer": "return=representation"})).json()["content"]
    claims = entry["receipt"].split(".")[1]
    assert "link" in json.loads(urlsafe_b64decode(claims + "=="))["user"]


async def test_senders_of_one_name_get_folders_without_many_lookups(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.operations.visits.NUMBERED", 2)
    (gateway.files / "box").mkdir()
    shared = await share(gateway, "/box", "request", folderPerSender=True)
    for _ in range(4):
        assert (await (await shared.guest(name="Anna")).put("a.txt")).status_code == 201
    names = {each.name for each in (gateway.files / "box").iterdir()}
    assert len(names) == 4
    assert {"Anna", "Anna (1)"} < names
    assert "Anna (2)" not in names


async def test_limits(gateway: Gateway) -> None:
    (gateway.files / "box").mkdir()
    shared = await share(
        gateway, "/box", "both", maxUploads=2, maxBytes=10, types=["txt", "image/*"], maxDownloads=1
    )
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
        assert (
            await gateway.client.get("/backend/1.0.0/filesystem/a.txt", headers=header)
        ).status_code == 401
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


Change = Callable[[Gateway], Awaitable[object]]


async def _rename(gateway: Gateway) -> None:
    moved = await gateway.call("POST", "box", user=SHARER, params={"action": "MOVE", "target": "/moved/deep"})
    assert moved.status_code == 201, moved.text


async def _delete(gateway: Gateway) -> None:
    assert (await gateway.call("DELETE", "box", user=SHARER, params={"recursive": "true"})).status_code == 204


async def _replace(gateway: Gateway) -> None:
    await _delete(gateway)
    gateway.put("box", b"a file")


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


async def test_a_move_is_done_even_if_links_cannot_follow(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def _in(seconds: int) -> str:
    return timestamps.from_epoch(clock_module.now() + seconds * 1000)


DAY = 24 * 3600


async def test_an_unfinished_upload_outlives_the_day_of_a_token(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt")
    shared = await share(gateway, kind="request", askName=False)
    guest, idle = await shared.guest(), await shared.guest()
    named = {"Upload-Length": "6", "Upload-Metadata": metadata(filename="late.txt")}
    begun = await guest.tus("POST", headers=named)
    where = begun.headers["Location"]
    piece = {"Content-Type": "application/offset+octet-stream"}
    sent = await guest.tus("PATCH", where, headers={**piece, "Upload-Offset": "0"}, content=b"abc")
    assert sent.status_code == 204
    clock.advance(DAY + 3600)
    for other in (idle, await shared.guest()):
        assert (await other.tus("HEAD", where)).status_code in (401, 404)
    assert (await idle.put("idle.txt", b"x")).status_code == 401
    for _ in range(2):  # a sweep leaves the guest
        assert (await guest.tus("HEAD", where)).headers["Upload-Offset"] == "3"
        await gateway.services.gateway.visits._guests.sweep()
    sent = await guest.tus("PATCH", where, headers={**piece, "Upload-Offset": "3"}, content=b"def")
    assert sent.status_code == 204
    assert (gateway.files / "box/late.txt").read_bytes() == b"abcdef"
    await shared.end()
    assert (await guest.tus("HEAD", where)).status_code == 401


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
