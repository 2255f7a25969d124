"""Resumable uploads by tus: what the gateway promises of every upload, and when it is interrupted."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import func, select

from portico.api.tus import MEDIA_TYPE
from portico.model.rights import Right
from portico.operations.uploads import resumable
from portico.operations.uploads.body import READ_AHEAD_BYTES
from portico.store.database import Database
from portico.store.tables import uploads as rows
from portico.store.uploads import Uploads

from ..conftest import OpenGateway
from ..gateways import Gateway
from .client import CONTENT, Tus, code, metadata


async def test_an_upload_belongs_to_its_user(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    other = Tus(gateway, "writer")
    assert (await other.call("HEAD", address)).status_code == 404
    assert (await other.patch(address, 0, b"x")).status_code == 404
    assert (await other.call("DELETE", address)).status_code == 404


async def test_rights(gateway: Gateway) -> None:
    gateway.put("a.bin", b"old")
    reader = await Tus(gateway, "reader").call("POST", Upload_Length="1", Upload_Metadata=metadata(filename="b"))
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


async def _falls_silent(tus: Tus, address: str) -> asyncio.Task[Any]:
    """A request that has sent as much as is read ahead, and nothing since: it has the upload."""
    sent = asyncio.Event()

    async def content() -> AsyncIterator[bytes]:
        yield CONTENT[:READ_AHEAD_BYTES]
        sent.set()
        await asyncio.Event().wait()

    request = asyncio.create_task(tus.patch(address, 0, content()))
    await sent.wait()
    return request


async def test_a_newer_request_takes_over(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create()
    older = await _falls_silent(tus, address)
    assert await tus.offset(address) == READ_AHEAD_BYTES
    refused = await older
    assert (refused.status_code, code(refused)) == (409, "upload-taken-over")
    rest = CONTENT[READ_AHEAD_BYTES:]
    assert (await tus.patch(address, READ_AHEAD_BYTES, rest)).status_code == 204
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
    running = await _falls_silent(tus, address)
    gateway.stop()
    answer = await running
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert await tus.offset(address) == READ_AHEAD_BYTES


async def test_an_upload_expires(open_gateway: OpenGateway, clock: Any) -> None:
    gateway = await open_gateway(**{"upload.unfinished-retention": "1h"})
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


@pytest.mark.parametrize("waits", [True, False])
async def test_the_body_is_read_ahead_unless_the_client_waits_for_permission(
    gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    address = await tus.create(len(CONTENT))
    headers = {
        **await gateway.sign_in(),
        "Tus-Resumable": "1.0.0",
        "Upload-Offset": "0",
        "Content-Type": MEDIA_TYPE,
        "Content-Length": str(len(CONTENT)),
        **({"Expect": "100-continue"} if waits else {}),
    }
    read = asyncio.Event()
    claim = Uploads.claimed
    read_before_it_was_claimed = False

    @asynccontextmanager
    async def slow(*arguments: Any) -> AsyncIterator[Any]:
        nonlocal read_before_it_was_claimed
        if not waits:
            await read.wait()
        read_before_it_was_claimed = read.is_set()
        async with claim(*arguments) as claimed:
            yield claimed

    async def note() -> None:
        read.set()

    monkeypatch.setattr(Uploads, "claimed", slow)
    steps: list[Any] = [note, CONTENT[:100_000], CONTENT[100_000:]]
    answer = await gateway.raw("PATCH", address.encode(), headers.items(), steps)
    assert answer.status == 204
    assert read_before_it_was_claimed is not waits
    assert (gateway.files / "a.bin").read_bytes() == CONTENT


async def test_a_refusal_after_the_body_was_read_ahead(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(len(CONTENT))
    for _ in range(3):
        refused = await tus.patch(address, 1, CONTENT)
        assert (refused.status_code, code(refused)) == (409, "offset-mismatch")
    assert (await tus.patch(address, 0, CONTENT)).status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == CONTENT


async def test_what_another_program_appended_does_not_count(gateway: Gateway, tus: Tus) -> None:
    address = await tus.create(10)
    await tus.patch(address, 0, b"01234")
    (staged,) = (gateway.settings.files_folder / ".portico~staging").iterdir()
    with open(staged, "ab") as file:
        file.write(b"other")
    assert await tus.offset(address) == 5
    assert (await tus.patch(address, 5, b"56789")).status_code == 204
    assert (gateway.files / "a.bin").read_bytes() == b"0123456789"


async def test_a_final_upload_of_malformed_addresses(tus: Tus) -> None:
    for address in ("http://[::1", "http://[::1]:x/", "%00"):
        answer = await tus.call("POST", Upload_Concat=f"final;{address}", Upload_Metadata=metadata(filename="a"))
        assert (answer.status_code, code(answer)) == (404, "not-found")


async def test_two_final_requests_at_once_store_one_whole_file(gateway: Gateway, tus: Tus) -> None:
    parts = []
    for piece in (CONTENT[:1000], CONTENT[1000:]):
        created = await tus.call("POST", Upload_Length=str(len(piece)), Upload_Concat="partial")
        parts.append(created.headers["Location"])
        assert (await tus.patch(parts[-1], 0, piece)).status_code == 204
    named = {"Upload_Concat": f"final;{' '.join(parts)}", "Upload_Metadata": metadata(filename="a.bin")}
    answers = await asyncio.gather(*(tus.call("POST", **named) for _ in range(4)))
    assert {each.status_code for each in answers} == {201}
    assert len({each.headers["Location"] for each in answers}) == 1
    assert (gateway.files / "a.bin").read_bytes() == CONTENT
    assert not gateway.left_over
