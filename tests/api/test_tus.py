"""Resumable uploads by tus: what the protocol asks for, and what the gateway promises of every upload."""

import asyncio
import hashlib
import json
import random
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from portico.api.tus import MEDIA_TYPE, UPLOADS
from portico.drive import Drive
from portico.operations import resources, resumable, upload_body
from portico.rights import Right
from portico.store.database import Database
from portico.store.tables import uploads as rows

from .conftest import OpenGateway
from .gateways import Gateway

CONTENT = random.Random(14).randbytes(300_000)


def metadata(**values: str) -> str:
    return ",".join(f"{key} {b64encode(value.encode()).decode()}" for key, value in values.items())


class Tus:
    """A client that sends what it is asked to, right or wrong."""

    def __init__(self, gateway: Gateway, user: str = "web") -> None:
        self._gateway = gateway
        self._user = user

    async def call(
        self, method: str, address: str = UPLOADS, content: Any = None, **headers: str
    ) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        signed = await self._gateway.sign_in(self._user)
        fixed = {"Tus-Resumable": "1.0.0", **signed, **named}
        return await self._gateway.client.request(method, address, headers=fixed, content=content)

    async def create(self, size: int | None = len(CONTENT), name: str = "a.bin", **more: str) -> str:
        length = {"Upload-Defer-Length": "1"} if size is None else {"Upload-Length": str(size)}
        answer = await self.call("POST", Upload_Metadata=metadata(filename=name, **more), **length)
        assert answer.status_code == 201, answer.text
        return answer.headers["Location"]

    async def patch(self, address: str, offset: int, content: Any, **headers: str) -> httpx2.Response:
        return await self.call(
            "PATCH", address, content, Upload_Offset=str(offset), Content_Type=MEDIA_TYPE, **headers
        )

    async def offset(self, address: str) -> int:
        answer = await self.call("HEAD", address)
        assert answer.status_code == 200, answer.headers
        assert answer.headers["Cache-Control"] == "no-store"
        return int(answer.headers["Upload-Offset"])


@pytest.fixture
def tus(gateway: Gateway) -> Tus:
    return Tus(gateway)


def code(answer: httpx2.Response) -> str:
    return str(answer.json()["code"])


async def test_a_server_describes_itself_to_anyone(gateway: Gateway) -> None:
    answer = await gateway.client.options(UPLOADS)
    assert answer.status_code == 204
    assert answer.headers["Tus-Version"] == "1.0.0"
    extensions = set(answer.headers["Tus-Extension"].split(","))
    assert extensions >= {"creation", "creation-with-upload", "creation-defer-length", "expiration"}
    assert extensions >= {"termination", "checksum", "concatenation"}
    assert {"sha256", "sha1", "md5", "crc32c"} <= set(answer.headers["Tus-Checksum-Algorithm"].split(","))
    assert "Tus-Max-Size" not in answer.headers


async def test_a_limit_is_announced_and_kept(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.max-file-size": "1000"})
    tus = Tus(gateway)
    assert (await gateway.client.options(UPLOADS)).headers["Tus-Max-Size"] == "1000"
    refused = await tus.call("POST", Upload_Length="1001", Upload_Metadata=metadata(filename="a"))
    assert (refused.status_code, code(refused)) == (413, "too-large")
    address = await tus.create(None)
    assert (await tus.patch(address, 0, bytes(1001))).status_code == 413
    refused = await tus.patch(address, await tus.offset(address), b"", Upload_Length="1001")
    assert refused.status_code == 413
    assert not (gateway.files / "a.bin").exists()


async def test_a_file_in_several_requests(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(folder="in/box", filetype="text/x-odd")
    assert address.startswith(f"{UPLOADS}/")
    for start in range(0, len(CONTENT), 70_000):
        assert not (gateway.files / "in/box/a.bin").exists()
        assert await tus.offset(address) == start
        answer = await tus.patch(address, start, CONTENT[start : start + 70_000])
        assert answer.status_code == 204
        assert int(answer.headers["Upload-Offset"]) == min(start + 70_000, len(CONTENT))
    assert answer.headers["Content-Location"] == "/backend/1.0.0/filesystem/in/box/a.bin"
    assert (gateway.files / "in/box/a.bin").read_bytes() == CONTENT
    assert await tus.offset(address) == len(CONTENT), (
        "a client that lost the answer learns that it is complete"
    )
    assert not gateway.left_over


async def test_what_the_head_says(tus: Tus) -> None:
    text = metadata(filename="a.bin", own="anything")
    created = await tus.call("POST", Upload_Length="5", Upload_Metadata=text)
    answer = await tus.call("HEAD", created.headers["Location"])
    assert answer.headers["Upload-Length"] == "5"
    assert answer.headers["Upload-Metadata"] == text
    assert answer.headers["Upload-Expires"] == created.headers["Upload-Expires"]
    deferred = await tus.call("HEAD", await tus.create(None))
    assert deferred.headers["Upload-Defer-Length"] == "1"
    assert "Upload-Length" not in deferred.headers


async def test_an_empty_file_is_stored_at_once(gateway: Gateway, tus: Tus) -> None:
    await tus.create(0, "empty")
    assert (gateway.files / "empty").read_bytes() == b""


async def test_creation_with_upload(gateway: Gateway, tus: Tus) -> None:
    answer = await tus.call(
        "POST",
        content=CONTENT,
        Upload_Length=str(len(CONTENT)),
        Upload_Metadata=metadata(filename="a.bin"),
        Content_Type=MEDIA_TYPE,
    )
    assert answer.status_code == 201
    assert answer.headers["Upload-Offset"] == str(len(CONTENT))
    assert (gateway.files / "a.bin").read_bytes() == CONTENT


async def test_a_length_that_is_known_later(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(None)
    await tus.patch(address, 0, CONTENT[:1000])
    assert not (gateway.files / "a.bin").exists()
    answer = await tus.patch(address, 1000, CONTENT[1000:], Upload_Length=str(len(CONTENT)))
    assert answer.status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == CONTENT


async def test_a_length_does_not_change(tus: Tus) -> None:
    address = await tus.create(10)
    refused = await tus.patch(address, 0, b"12345", Upload_Length="11")
    assert (refused.status_code, code(refused)) == (400, "invalid-request")
    shorter = await tus.create(None)
    await tus.patch(shorter, 0, b"12345")
    assert (await tus.patch(shorter, 5, b"", Upload_Length="4")).status_code == 400


async def test_more_than_was_announced_is_refused(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(4)
    refused = await tus.patch(address, 0, b"12345")
    assert (refused.status_code, code(refused)) == (413, "too-large")

    async def chunked() -> Any:
        yield b"12"
        yield b"345"

    assert (await tus.patch(address, 0, chunked())).status_code == 413
    assert not (gateway.files / "a.bin").exists()


async def test_a_wrong_offset_is_a_conflict(tus: Tus) -> None:
    address = await tus.create()
    await tus.patch(address, 0, CONTENT[:1000])
    for offset in (0, 999, 1001):
        refused = await tus.patch(address, offset, b"x")
        assert (refused.status_code, code(refused)) == (409, "offset-mismatch")
    assert await tus.offset(address) == 1000


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"Tus-Resumable": "0.2.0", "Upload-Length": "1"}, 412),
        ("POST", {}, 400),
        ("POST", {"Upload-Length": "-1"}, 400),
        ("POST", {"Upload-Length": "1e3"}, 400),
        ("POST", {"Upload-Length": "9" * 40}, 400),
        ("POST", {"Upload-Length": "1"}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": "filename"}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": "filename ?"}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": "filename YQ==,filename YQ=="}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": metadata(filename="../a")}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": metadata(filename="a", folder="..")}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": metadata(filename=".portico~x")}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": metadata(filename="a", onConflict="x")}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": metadata(filename="a", modified="soon")}, 400),
        ("POST", {"Upload-Length": "1", "Upload-Metadata": "x " + "A" * 5000}, 400),
        ("POST", {"Upload-Concat": "half", "Upload-Length": "1"}, 400),
        ("POST", {"Upload-Concat": "final;", "Upload-Metadata": metadata(filename="a")}, 400),
        ("POST", {"Upload-Concat": "final;/x", "Upload-Metadata": metadata(filename="a")}, 404),
    ],
)
async def test_bad_creations(
    gateway: Gateway, tus: Tus, method: str, headers: dict[str, str], status: int
) -> None:
    answer = await tus.call(method, **headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    if status == 412:
        assert answer.headers["Tus-Version"] == "1.0.0"
    assert not list(gateway.files.iterdir())


async def test_bad_requests_to_an_upload(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    assert (await tus.call("PATCH", address, b"x", Upload_Offset="0")).status_code == 415
    assert (await tus.call("PATCH", address, b"x", Content_Type=MEDIA_TYPE)).status_code == 400
    coded = await tus.patch(address, 0, b"x", Content_Encoding="gzip")
    assert coded.status_code == 415
    assert (await tus.call("HEAD", f"{UPLOADS}/{'0' * 32}")).status_code == 404
    assert (await tus.call("HEAD", f"{UPLOADS}/nothing")).status_code == 404
    assert (await tus.call("GET", address)).status_code == 405
    unsigned = await gateway.client.patch(address, headers={"Tus-Resumable": "1.0.0"}, content=b"x")
    assert unsigned.status_code == 401
    assert await tus.offset(address) == 0


async def test_a_method_in_a_header(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(3)
    options = {"Upload-Offset": "0", "Content-Type": MEDIA_TYPE, "X-HTTP-Method-Override": "PATCH"}
    assert (await tus.call("POST", address, b"abc", **options)).status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == b"abc"
    assert (await tus.call("POST", address, b"abc")).status_code == 405


async def test_termination(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    await tus.patch(address, 0, CONTENT[:1000])
    assert gateway.left_over
    assert (await tus.call("DELETE", address)).status_code == 204
    assert (await tus.call("HEAD", address)).status_code == 404
    assert (await tus.patch(address, 1000, b"x")).status_code == 404
    assert not gateway.left_over


async def test_an_upload_belongs_to_its_user(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    other = Tus(gateway, "writer")
    assert (await other.call("HEAD", address)).status_code == 404
    assert (await other.patch(address, 0, b"x")).status_code == 404
    assert (await other.call("DELETE", address)).status_code == 404


async def test_rights(gateway: Gateway) -> None:
    gateway.put("a.bin", b"old")
    reader = await Tus(gateway, "reader").call(
        "POST", Upload_Length="1", Upload_Metadata=metadata(filename="b")
    )
    assert (reader.status_code, code(reader)) == (403, "forbidden")
    writer = Tus(gateway, "writer")
    taken = await writer.call("POST", Upload_Length="1", Upload_Metadata=metadata(filename="a.bin"))
    assert (taken.status_code, code(taken)) == (409, "already-exists")
    wish = metadata(filename="a.bin", onConflict="replace")
    assert (await writer.call("POST", Upload_Length="1", Upload_Metadata=wish)).status_code == 403
    assert (gateway.files / "a.bin").read_bytes() == b"old"


async def test_names_that_are_taken_meanwhile(gateway: Gateway, tus: Tus) -> None:
    fail, rename, replace = [await tus.create(3, onConflict=wish) for wish in ("fail", "rename", "replace")]
    gateway.put("a.bin", b"other")
    refused = await tus.patch(fail, 0, b"one")
    assert (refused.status_code, code(refused)) == (409, "already-exists")
    asked = await tus.call("HEAD", fail)
    assert (asked.status_code, asked.headers["X-Error-Code"]) == (409, "already-exists")
    renamed = await tus.patch(rename, 0, b"two")
    assert renamed.headers["Content-Location"].endswith("/a%20(1).bin")
    assert (gateway.files / "a.bin").read_bytes() == b"other"
    assert (await tus.patch(replace, 0, b"six")).status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == b"six"
    assert (gateway.files / "a (1).bin").read_bytes() == b"two"


async def test_a_right_that_is_taken_away(gateway: Gateway, tus: Tus) -> None:
    gateway.put("a.bin", b"old")
    address = await tus.create(3)
    await gateway.users.change("web", rights=frozenset({Right.LIST, Right.UPLOAD}))
    refused = await tus.patch(address, 0, b"new")
    assert (refused.status_code, code(refused)) == (403, "forbidden")
    assert (gateway.files / "a.bin").read_bytes() == b"old"


async def test_a_root_that_changes_ends_the_upload(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(3)
    await gateway.users.change("web", root="/elsewhere")
    assert (await tus.patch(address, 0, b"new")).status_code == 404
    assert not (gateway.files / "a.bin").exists()


async def test_a_modification_time(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(3, modified="2020-02-03T04:05:06.789Z")
    await tus.patch(address, 0, b"abc")
    shown = (await gateway.call("GET", "a.bin", params={"action": "STAT"})).json()
    assert shown["lastModified"] == "2020-02-03T04:05:06.789Z"


async def test_metadata_as_uppy_sends_it(gateway: Gateway, tus: Tus) -> None:
    text = metadata(name="b.txt", type="text/plain", relativePath="tree/leaf/b.txt", folder="top")
    answer = await tus.call("POST", Upload_Length="0", Upload_Metadata=text)
    assert answer.status_code == 201
    assert (gateway.files / "top/tree/leaf/b.txt").exists()


async def test_the_location_is_the_public_one(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"server.public-url": "https://files.example.com/"})
    assert (await Tus(gateway).create()).startswith(f"https://files.example.com{UPLOADS}/")


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5"])
@pytest.mark.parametrize("held", [True, False], ids=["held", "stored"])
async def test_checksums(
    gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch, algorithm: str, held: bool
) -> None:
    if not held:
        monkeypatch.setattr(upload_body, "HELD_BYTES", 10)
    address = await tus.create()
    await tus.patch(address, 0, CONTENT[:1000])

    def checksum(content: bytes) -> str:
        return f"{algorithm} {b64encode(hashlib.new(algorithm, content).digest()).decode()}"

    wrong = await tus.patch(address, 1000, CONTENT[1000:2000], Upload_Checksum=checksum(b"other"))
    assert (wrong.status_code, code(wrong)) == (460, "checksum-mismatch")
    assert await tus.offset(address) == 1000
    for text in ("sha256 YQ==", "rot13 YQ==", "sha256", "sha256 ???"):
        refused = await tus.patch(address, 1000, CONTENT[1000:2000], Upload_Checksum=text)
        assert (refused.status_code, code(refused)) == (400, "invalid-request")
    right = await tus.patch(address, 1000, CONTENT[1000:], Upload_Checksum=checksum(CONTENT[1000:]))
    assert right.status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == CONTENT
    assert not gateway.left_over
    partial = gateway.settings.files_folder / ".portico~uploads"
    assert not partial.exists() or not list(partial.iterdir())


async def test_slow_requests_with_a_checksum_do_not_block_others(gateway: Gateway, tus: Tus) -> None:
    ends = asyncio.Event()
    begun = asyncio.Queue[None]()

    async def slow() -> AsyncIterator[bytes]:
        begun.put_nowait(None)
        yield CONTENT[:10]
        await ends.wait()
        yield CONTENT[10:]

    md5 = f"md5 {b64encode(hashlib.md5(CONTENT).digest()).decode()}"
    options = {"Upload-Checksum": md5, "Content-Length": str(len(CONTENT))}
    addresses = [await tus.create(name=f"{number}.bin") for number in range(resources.HELD_AT_ONCE)]
    sending = [asyncio.create_task(tus.patch(address, 0, slow(), **options)) for address in addresses]
    for _ in sending:
        await begun.get()
    quick = await tus.patch(await tus.create(), 0, CONTENT, **options)
    assert quick.status_code == 204
    ends.set()
    assert {answer.status_code for answer in await asyncio.gather(*sending)} == {204}
    assert not gateway.left_over


async def test_crc32c(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(9)
    value = b64encode(0xE3069283.to_bytes(4, "big")).decode()
    assert (await tus.patch(address, 0, b"123456789", Upload_Checksum=f"crc32c {value}")).status_code == 204


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Upload-Checksum": "sha1 " + b64encode(bytes(20)).decode()}, 460),
        ({"Upload-Length": "10"}, 413),
        ({"Content-Type": "text/plain"}, 415),
    ],
)
async def test_a_refused_beginning_leaves_no_upload(
    gateway: Gateway, tus: Tus, headers: dict[str, str], status: int
) -> None:
    sent = {
        "Upload-Length": "300000",
        "Upload-Metadata": metadata(filename="a.bin"),
        "Content-Type": MEDIA_TYPE,
        **headers,
    }
    assert (await tus.call("POST", content=CONTENT, **sent)).status_code == status
    assert await _records(gateway) == 0, "nobody knows its address"
    assert not gateway.left_over


async def _records(gateway: Gateway) -> int:
    database = Database(gateway.settings.database_url)
    try:
        return len(await database.fetch(select(rows.c.id)))
    finally:
        await database.close()


async def test_concatenation(gateway: Gateway, tus: Tus) -> None:
    parts = []
    for start in (0, 100_000, 200_000):
        created = await tus.call("POST", Upload_Length="100000", Upload_Concat="partial")
        assert created.status_code == 201
        parts.append(created.headers["Location"])
        assert (await tus.patch(parts[-1], 0, CONTENT[start : start + 50_000])).status_code == 204
    final = {"Upload-Concat": "final;" + " ".join(parts), "Upload-Metadata": metadata(filename="a.bin")}
    assert (await tus.call("POST", **final)).status_code == 400, "the parts are not complete"
    for address, start in zip(parts, (50_000, 150_000, 250_000), strict=True):
        assert (await tus.patch(address, 50_000, CONTENT[start : start + 50_000])).status_code == 204
    assert (await tus.call("HEAD", parts[0])).headers["Upload-Concat"] == "partial"
    answer = await tus.call("POST", **final)
    assert answer.status_code == 201, answer.text
    assert (gateway.files / "a.bin").read_bytes() == CONTENT
    assert (await tus.patch(answer.headers["Location"], len(CONTENT), b"more")).status_code == 403
    records = await _records(gateway)
    again = await tus.call("POST", **final)
    assert again.headers["Location"] == answer.headers["Location"], "the answer may have been lost"
    assert await _records(gateway) == records
    head = await tus.call("HEAD", answer.headers["Location"])
    assert head.headers["Upload-Concat"].startswith("final;")
    assert head.headers["Upload-Length"] == head.headers["Upload-Offset"] == "300000"
    listed = (await gateway.list()).json()["content"]
    assert [entry["name"] for entry in listed if not entry["isCurrentFolder"]] == ["a.bin"]
    assert not gateway.left_over
    assert not list((gateway.settings.files_folder / ".portico~uploads").iterdir())


async def test_a_cut_request_keeps_what_arrived(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    headers = await gateway.sign_in()
    await gateway.raw(
        "PATCH",
        address.encode(),
        [
            *headers.items(),
            ("Tus-Resumable", "1.0.0"),
            ("Upload-Offset", "0"),
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(CONTENT))),
        ],
        [CONTENT[:1234], ConnectionResetError()],
    )
    assert await tus.offset(address) == 1234


async def test_a_newer_request_takes_over(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    sent = asyncio.Event()

    async def silent() -> Any:
        yield CONTENT[:5000]
        sent.set()
        await asyncio.Event().wait()

    older = asyncio.create_task(tus.patch(address, 0, silent()))
    await sent.wait()
    assert await tus.offset(address) == 5000
    refused = await older
    assert (refused.status_code, code(refused)) == (409, "upload-taken-over")
    assert (await tus.patch(address, 5000, CONTENT[5000:])).status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == CONTENT


async def test_two_clients_at_once_make_one_whole_file(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()

    async def send() -> None:
        while (offset := await tus.offset(address)) < len(CONTENT):
            await tus.patch(address, offset, CONTENT[offset : offset + 20_000])

    await asyncio.gather(send(), send(), send())
    assert (gateway.files / "a.bin").read_bytes() == CONTENT


async def test_a_gateway_that_stops_sends_the_client_elsewhere(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    sent = asyncio.Event()

    async def silent() -> Any:
        yield CONTENT[:5000]
        sent.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(tus.patch(address, 0, silent()))
    await sent.wait()
    gateway.stop()
    answer = await running
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert await tus.offset(address) == 5000


async def test_an_upload_expires(open_gateway: OpenGateway, clock: Any) -> None:
    gateway = await open_gateway(**{"uploads.expire-after": "1h"})
    tus = Tus(gateway)
    address = await tus.create()
    await tus.patch(address, 0, CONTENT[:1000])
    clock.advance(3601)
    assert (await tus.call("HEAD", address)).status_code == 404
    assert (await tus.patch(address, 1000, b"x")).status_code == 404


async def test_too_many_uploads(gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumable, "MAX_OPEN", 2)
    await tus.create()
    await tus.create()
    refused = await tus.call("POST", Upload_Length="1", Upload_Metadata=metadata(filename="b"))
    assert (refused.status_code, code(refused)) == (429, "too-many-requests")


async def test_the_audit_log_has_one_line(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"audit.log": "audit.jsonl"})
    tus = Tus(gateway)
    address = await tus.create(onConflict="rename")
    gateway.put("a.bin", b"other")
    await tus.patch(address, 0, CONTENT[:1000])
    await tus.patch(address, 1000, CONTENT[1000:])
    lines = [json.loads(line) for line in (gateway.settings.home / "audit.jsonl").read_text().splitlines()]
    uploads = [line for line in lines if line["action"] == "upload"]
    assert [(line["outcome"], line["path"], line["bytes"]) for line in uploads] == [
        ("done", "/a (1).bin", len(CONTENT))
    ]


async def test_the_state_is_sealed(gateway: Gateway, tus: Tus) -> None:
    await tus.patch(await tus.create(), 0, CONTENT[:10])
    database = Database(gateway.settings.database_url)
    (row,) = await database.fetch(select(rows.c.state, rows.c.offset))
    assert row.offset == 10
    assert b"a.bin" not in row.state
    (count,) = await database.fetch(select(func.count().label("number")).select_from(rows))
    assert count.number == 1
    await database.close()


def sha256_of(content: bytes) -> str:
    return f"sha-256=:{b64encode(hashlib.sha256(content).digest()).decode()}:"


async def test_digests_of_http(gateway: Gateway, tus: Tus) -> None:
    gateway.put("a.bin", b"old")
    address = await tus.create()
    wrong = await tus.patch(address, 0, CONTENT, Content_Digest=sha256_of(b"other"))
    assert (wrong.status_code, code(wrong)) == (400, "digest-mismatch")
    assert await tus.offset(address) == 0
    assert (gateway.files / "a.bin").read_bytes() == b"old"
    refused = await tus.patch(address, 0, CONTENT[:10], Repr_Digest=sha256_of(CONTENT))
    assert (refused.status_code, code(refused)) == (400, "invalid-request")
    assert (await tus.patch(address, 0, CONTENT, Content_Digest=sha256_of(CONTENT))).status_code == 204
    whole = {"Upload-Metadata": metadata(filename="b"), "Upload-Length": "3", "Content-Type": MEDIA_TYPE}
    wrong = await tus.call("POST", content=b"abc", Repr_Digest=sha256_of(b"abd"), **whole)
    assert (wrong.status_code, code(wrong)) == (400, "digest-mismatch")
    assert not (gateway.files / "b").exists()
    right = await tus.call("POST", content=b"abc", Repr_Digest=sha256_of(b"abc"), **whole)
    assert right.status_code == 201


@pytest.mark.parametrize("cut", [0, 1000], ids=["in-passing", "read-again"])
async def test_a_digest_that_is_asked_for(gateway: Gateway, tus: Tus, cut: int) -> None:
    address = await tus.create()
    if cut:
        await tus.patch(address, 0, CONTENT[:cut])
    answer = await tus.patch(address, cut, CONTENT[cut:], Want_Repr_Digest="sha-256=5")
    assert answer.status_code == 204
    assert answer.headers["Repr-Digest"] == sha256_of(CONTENT)
    assert (await tus.call("HEAD", address)).headers["Repr-Digest"] == sha256_of(CONTENT)
    shown = await gateway.call("HEAD", "a.bin", headers={"Want-Repr-Digest": "sha-256=1"})
    assert shown.headers["Repr-Digest"] == sha256_of(CONTENT)


async def test_the_digest_of_joined_uploads_is_computed_in_passing(
    gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    for content in (CONTENT[:1000], CONTENT[1000:]):
        created = await tus.call("POST", Upload_Length=str(len(content)), Upload_Concat="partial")
        parts.append(created.headers["Location"])
        await tus.patch(parts[-1], 0, content)
    monkeypatch.delattr(Drive, "read_to_compare")
    final = {"Upload-Concat": "final;" + " ".join(parts), "Upload-Metadata": metadata(filename="a.bin")}
    answer = await tus.call("POST", Want_Repr_Digest="sha-256=5", **final)
    assert (answer.status_code, answer.headers["Repr-Digest"]) == (201, sha256_of(CONTENT))
    shown = await gateway.call("HEAD", "a.bin", headers={"Want-Repr-Digest": "sha-256=1"})
    assert shown.headers["Repr-Digest"] == sha256_of(CONTENT)


async def test_a_digest_of_every_upload(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"uploads.digest": "always"})
    tus = Tus(gateway)
    address = await tus.create(3)
    await tus.patch(address, 0, b"a")
    await tus.patch(address, 1, b"bc")
    shown = (await gateway.call("GET", "a.bin", params={"action": "STAT"})).json()
    assert shown["digest"] == sha256_of(b"abc")


async def test_a_receipt(tus: Tus) -> None:
    address = await tus.create(3, onConflict="rename")
    answer = await tus.patch(address, 0, b"abc", Prefer="return=representation")
    assert answer.status_code == 200
    assert answer.headers["Upload-Offset"] == "3"
    (stored,) = answer.json()["content"]
    assert (stored["name"], stored["size"], stored["digest"]) == ("a.bin", 3, sha256_of(b"abc"))
    assert stored["receipt"].count(".") == 2


async def test_the_digest_of_the_last_request_is_not_that_of_the_file(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    await tus.patch(address, 0, CONTENT[:1000])
    last = CONTENT[1000:]
    checksum = f"sha256 {b64encode(hashlib.sha256(last).digest()).decode()}"
    answer = await tus.patch(address, 1000, last, Upload_Checksum=checksum, Want_Repr_Digest="sha-256=1")
    assert answer.headers["Repr-Digest"] == sha256_of(CONTENT)
    shown = await gateway.call("HEAD", "a.bin")
    assert shown.headers["Repr-Digest"] == sha256_of(CONTENT)


async def test_a_creation_is_repeated_under_its_key(gateway: Gateway, tus: Tus) -> None:
    headers = {"Upload-Length": "3", "Upload-Metadata": metadata(filename="k", onConflict="rename")}
    key = {"Idempotency-Key": '"creation"'}
    first = await tus.call("POST", content=b"abc", Content_Type=MEDIA_TYPE, **headers, **key)
    again = await tus.call("POST", content=b"abc", Content_Type=MEDIA_TYPE, **headers, **key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.headers["Location"] == again.headers["Location"]
    assert [file.name for file in gateway.files.iterdir()] == ["k"]
    other = {**headers, "Upload-Metadata": metadata(filename="other")}
    refused = await tus.call("POST", content=b"abc", Content_Type=MEDIA_TYPE, **other, **key)
    assert refused.status_code == 422


async def test_a_digest_says_nothing_to_those_who_may_not_download(gateway: Gateway, tus: Tus) -> None:
    await gateway.call("PUT", "file", content=b"secret", headers={"Want-Repr-Digest": "sha-256=1"})
    shown = await gateway.list("file", "watcher", action="STAT", fields="digest")
    assert "digest" not in shown.json()
