"""What links, tickets and rights give by REST: nothing beyond them, and nothing after they were taken away."""

import asyncio
import io
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

import pytest

from portico.api.requests import address_of
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS, Right
from portico.operations.actors import actor
from portico.providers.contract.registry import open_provider
from portico.providers.contract.uploads import WriteOptions

from ..servers.moto_s3 import KEYS as MOTO_S3_KEYS
from ..servers.moto_s3 import moto_buckets, moto_s3
from .conftest import Clock, OpenGateway
from .gateways import Gateway, address
from .shares import SHARER, GuestClient, share

ZIP = {"action": "ZIP"}
TICKET = {"action": "TICKET", "recursive": "true"}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is trusted for a while, and work under way is looked at all the time."""
    monkeypatch.setattr(actor, "TRUSTED_SECONDS", -1.0)
    monkeypatch.setattr(actor, "WATCH_SECONDS", 0.01, raising=False)


async def _content(*content: bytes) -> AsyncIterator[bytes]:
    for chunk in content:
        yield chunk


@pytest.fixture
async def twins(gateway: Gateway) -> AsyncIterator[Gateway]:
    """On an object store, a file `report` and a folder `report`."""
    bucket = f"bucket-{token_hex(8)}"
    options = {"bucket": bucket, "endpoint-url": moto_s3()}
    with moto_buckets(bucket):
        await gateway.connections.add("s3", "s3", options, MOTO_S3_KEYS)
        for name in (SHARER, "web"):
            await gateway.users.change(name, connection="s3", root="/")
        provider: Any = open_provider("s3", {**options, **MOTO_S3_KEYS})
        for key, content in (("report", b"a file"), ("report/private.txt", b"a secret")):
            await provider.store(key, _content(content), "text/plain", WriteOptions())
        await provider.close()
        yield gateway


async def test_a_link_to_a_file_does_not_open_the_folder_of_its_name(twins: Gateway) -> None:
    guest = await (await share(twins, "/report")).guest()
    body = {"paths": ["private.txt"]}
    for answer in (
        await guest.call("GET", "report/", params=ZIP),
        await guest.call("POST", "report", params=ZIP, json=body),
        await guest.call("POST", "report/", params=ZIP, json=body),
        await guest.call("POST", "report/", params=TICKET),
        await guest.call("GET", "report/"),
        await guest.call("GET", "report/private.txt"),
    ):
        assert answer.status_code == 403, answer.text
        assert b"secret" not in answer.content
    assert (await guest.call("GET", "report")).content == b"a file"
    assert b"secret" not in (await guest.call("GET", "report", params=ZIP)).content


@pytest.mark.parametrize("by", ["user", "guest"])
async def test_a_ticket_for_a_file_does_not_open_the_folder_of_its_name(twins: Gateway, by: str) -> None:
    if by == "user":
        answer = await twins.call("POST", "report", params=TICKET)
    else:
        answer = await (await (await share(twins, "/report")).guest()).call("POST", "report", params=TICKET)
    ticket = {"ticket": answer.json()["ticket"]}
    client, body = twins.client, {"paths": ["private.txt"]}
    for answer in (
        await client.get(address("report/"), params=ZIP | ticket),
        await client.post(address("report"), params=ZIP | ticket, json=body),
        await client.post(address("report/"), params=ZIP | ticket, json=body),
    ):
        assert answer.status_code == 403, answer.text
        assert b"secret" not in answer.content
    assert (await client.get(address("report"), params=ticket)).content == b"a file"
    assert b"secret" not in (await client.get(address("report"), params=ZIP | ticket)).content


async def test_a_ticket_for_a_folder_does_not_open_the_file_of_its_name(twins: Gateway) -> None:
    answer = await twins.call("POST", "report/", params=TICKET)
    ticket = {"ticket": answer.json()["ticket"]}
    zipped = await twins.client.get(address("report"), params=ZIP | ticket)
    assert b"private.txt" in zipped.content
    refused = await twins.client.get(address("report"), params=ticket)
    assert (refused.status_code, refused.json()["code"]) == (409, "is-a-folder")


@pytest.mark.parametrize("target", ["/secret/b.txt", "/pub/b.txt"])
async def test_a_guests_ticket_does_not_open_another_file_after_a_move(gateway: Gateway, target: str) -> None:
    gateway.put("pub/a.txt", b"public")
    for private in ("secret/a.txt", "pub/x.txt"):
        gateway.put(private, b"a secret")
    guest = await (await share(gateway, "/pub/a.txt")).guest()
    ticket = (await guest.call("POST", "a.txt", params={"action": "TICKET"})).json()["ticket"]
    by_ticket = {"ticket": ticket}
    assert (await gateway.client.get(address("a.txt"), params=by_ticket)).content == b"public"
    for source, name in (("pub/a.txt", target), ("pub/x.txt", "/pub/a.txt")):
        move = {"action": "MOVE", "target": name}
        assert (await gateway.call("POST", source, params=move)).status_code == 201
    answer = await gateway.client.get(address("a.txt"), params=by_ticket)
    assert answer.status_code == 401
    assert b"secret" not in answer.content


@pytest.mark.parametrize("name", ["report", "a.txt", ".hidden", "x.", "with space"])
async def test_a_guest_gets_the_one_file_by_its_plain_path(gateway: Gateway, name: str) -> None:
    gateway.put(f"box/{name}", b"shared")
    guest = await (await share(gateway, f"/box/{name}")).guest()
    path = guest.visit["file"]["absolutePath"].removeprefix("/")
    for parameters in ({}, {"size": "10"}, {"action": "DOWNLOAD"}):
        answer = await guest.call("GET", path, params=parameters)
        assert (answer.status_code, answer.content) == (200, b"shared"), answer.text
    assert (await guest.call("HEAD", path)).status_code == 200
    for other in ("", "other", f"{path}/below"):
        assert (await guest.call("GET", other)).status_code == 403


async def test_the_head_of_an_archive_is_not_counted(gateway: Gateway) -> None:
    gateway.put("box/a.txt", b"shared")
    shared = await share(gateway, maxDownloads=1)
    first, second = await shared.guest(), await shared.guest()
    assert (await first.call("HEAD", "", params=ZIP)).status_code == 200
    assert (await shared.show())["downloads"] == 0
    assert (await second.call("GET", "", params=ZIP)).status_code == 200
    refused = await first.call("GET", "", params=ZIP)
    assert (refused.status_code, refused.json()["code"]) == (403, "limit-reached")
    assert (await shared.show())["downloads"] == 1


async def test_a_guest_who_waits_for_a_refusal_gets_a_number(gateway: Gateway) -> None:
    gateway.put("box/a.txt", b"first")
    guest = await (await share(gateway, kind="both")).guest()
    for name in ("a (1).txt", "a (2).txt"):
        answer = await guest.put("a.txt", b"sent", headers={"Expect": "100-continue"})
        assert answer.status_code == 201
        assert answer.headers["Location"] == address_of(Path((name,)))
        assert (gateway.files / "box" / name).read_bytes() == b"sent"


@pytest.mark.parametrize(
    "path", ["/s/{}", "/S/{}", "//s/{}", "/s//{}", "/portico/s/{}", "/%73/{}", "/s%2F{}", "/s/{}/more"]
)
async def test_the_secret_of_a_link_is_not_logged(
    open_gateway: OpenGateway, log_stream: io.StringIO, path: str
) -> None:
    gateway = await open_gateway()
    token = "T0k3n" + token_hex(14)
    target = path.format(token)
    answer = await gateway.raw("GET", target.encode())
    assert token not in log_stream.getvalue()
    assert token.encode() not in answer.body
    await gateway.raw("GET", address("s/folder").encode())
    assert address("s/folder") in log_stream.getvalue()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("by", ["session", "key"])
@pytest.mark.parametrize("change", [{"rights": DEFAULT_RIGHTS - {Right.UPLOAD}}, {"root": "/elsewhere"}])
async def test_an_upload_is_not_stored_after_a_loss(gateway: Gateway, by: str, change: Any) -> None:
    header = await gateway.sign_in()
    if by == "key":
        made = await gateway.client.post("/backend/1.0.0/account/keys", headers=header, json={"name": "key"})
        header = {"Authorization": f"Bearer {made.json()['key']}"}

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        await gateway.users.change("web", **change)
        yield b"last"

    answer = await gateway.client.put(address("a.txt"), headers=header, content=body())
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert not list(gateway.files.iterdir())
    assert not (gateway.files.parent / "elsewhere").exists()


@pytest.mark.usefixtures("impatient")
async def test_a_resumable_upload_is_not_stored_after_a_loss(gateway: Gateway) -> None:
    header = {**await gateway.sign_in(), "Tus-Resumable": "1.0.0"}
    create = header | {"Upload-Length": "9", "Upload-Metadata": "filename YS50eHQ="}
    place = (await gateway.client.post("/backend/1.0.0/uploads", headers=create)).headers["Location"]

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        await gateway.users.change("web", rights=[Right.LIST])
        yield b"last"

    patch = header | {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    answer = await gateway.client.patch(place, headers=patch, content=body())
    assert answer.status_code == 403
    assert not list(gateway.files.iterdir())


@pytest.mark.parametrize("change", [{"rights": [Right.LIST]}, {"root": "/elsewhere"}])
async def test_an_answer_is_not_replayed_after_a_loss(gateway: Gateway, clock: Clock, change: Any) -> None:
    header = await gateway.sign_in()

    async def put() -> Any:
        headers = {**header, "Idempotency-Key": '"once"'}
        return await gateway.client.put(address("a.txt"), headers=headers, content=b"sent")

    assert (await put()).status_code == 201
    assert (await put()).headers["Idempotency-Replayed"] == "true"
    await gateway.users.change("web", **change)
    clock.advance(1)
    answer = await put()
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "Idempotency-Replayed" not in answer.headers


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("by", ["session", "key", "guest", "ticket"])
@pytest.mark.parametrize("action", ["DOWNLOAD", "ZIP"])
async def test_a_download_breaks_off_when_the_user_is_disabled(gateway: Gateway, by: str, action: str) -> None:
    with gateway.put("box/large.bin").open("wb") as file:
        file.truncate(4 * 2**30)
    path, query = "box/large.bin", f"?action={action}"
    headers = await gateway.sign_in(SHARER)
    if by == "key":
        made = await gateway.client.post("/backend/1.0.0/account/keys", headers=headers, json={"name": "key"})
        headers = {"Authorization": f"Bearer {made.json()['key']}"}
    elif by == "guest":
        headers, path = (await (await share(gateway)).guest()).header, "large.bin"
    elif by == "ticket":
        issued = await gateway.client.post(address(path), headers=headers, params={"action": "TICKET"})
        headers, query = {}, f"{query}&ticket={issued.json()['ticket']}"
    sent, begun, complete = 0, asyncio.Event(), False

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        nonlocal sent, complete
        sent += len(message.get("body", b""))
        complete = message["type"] == "http.response.body" and not message.get("more_body", False)
        if sent > 2**20:
            begun.set()
        await asyncio.sleep(0)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": address(path),
        "raw_path": address(path).encode(),
        "query_string": query[1:].encode(),
        "root_path": "",
        "headers": [(b"host", b"gateway.test")]
        + [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("gateway.test", 80),
    }
    download = asyncio.ensure_future(gateway.app(scope, receive, send))
    async with asyncio.timeout(120):
        await begun.wait()
        await gateway.users.change(SHARER, disabled=True)
        await download
    assert sent < 4 * 2**30
    assert not complete  # so the server closes the connection


async def test_another_folder_does_not_revive_a_link(gateway: Gateway, clock: Clock) -> None:
    gateway.put("box/a.txt", b"shared")
    shared = await share(gateway)
    guest = await shared.guest()
    deleted = await gateway.call("DELETE", "box", user=SHARER, params={"recursive": "true"})
    gateway.put("box/a.txt", b"other")
    clock.advance(1)

    async def seen(by: GuestClient) -> tuple[int, str]:
        answer = await by.call("GET", "a.txt")
        return answer.status_code, answer.json()["code"] if answer.status_code >= 400 else answer.text

    assert await seen(guest) == (404, "target-gone")
    assert (await shared.open()).json()["code"] == "target-gone"
    trash = f"/backend/1.0.0/trash/{deleted.headers['X-Trash-Id']}"
    restored = await gateway.client.post(
        trash, headers=await gateway.sign_in(SHARER), params={"action": "RESTORE", "onConflict": "rename"}
    )
    assert restored.status_code in (200, 201), restored.text
    clock.advance(1)
    assert await seen(guest) == (200, "shared")
