"""Resumable uploads by tus: what the protocol asks for."""

from base64 import b64encode
from typing import Any

import pytest
from sqlalchemy import select

from portico.api.tus import MEDIA_TYPE, UPLOADS
from portico.store.database import Database
from portico.store.tables import uploads as rows

from ..conftest import OpenGateway
from ..gateways import Gateway
from .client import CONTENT, Tus, code, metadata


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
    assert await tus.offset(address) == len(CONTENT), "a client that lost the answer learns that it is complete"
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


async def test_a_length_that_came_with_a_refused_body_is_not_kept(gateway: Gateway, tus: Tus) -> None:
    upload = await tus.create(None)
    refused = await tus.patch(upload, 0, CONTENT, Upload_Length=str(len(CONTENT) - 1))
    assert (refused.status_code, code(refused)) == (413, "too-large")
    assert "Upload-Length" not in (await tus.call("HEAD", upload)).headers
    answer = await tus.patch(upload, 0, CONTENT, Upload_Length=str(len(CONTENT)))
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
async def test_bad_creations(gateway: Gateway, tus: Tus, method: str, headers: dict[str, str], status: int) -> None:
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
