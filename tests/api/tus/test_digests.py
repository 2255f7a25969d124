"""Resumable uploads by tus: checksums, digests and receipts."""

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from portico.api.tus import MEDIA_TYPE
from portico.drive.drive import Drive
from portico.drive.view import DriveView
from portico.model.errors import service_unavailable
from portico.operations.uploads import access, body
from portico.operations.uploads.expiry import sweep_uploads

from ..conftest import OpenGateway
from ..gateways import Gateway
from .client import CONTENT, Tus, code, metadata


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "md5"])
@pytest.mark.parametrize("held", [True, False], ids=["held", "stored"])
async def test_checksums(
    gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch, algorithm: str, held: bool
) -> None:
    if not held:
        monkeypatch.setattr(body, "HELD_BYTES", 10)
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


@pytest.mark.parametrize("right", [False, True], ids=["wrong", "right"])
async def test_checksum_is_judged_even_if_the_hidden_part_cannot_be_removed(
    gateway: Gateway, tus: Tus, monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    monkeypatch.setattr(body, "HELD_BYTES", 10)
    remove = Drive.remove_partial_upload

    async def fails(*_: object) -> None:
        raise service_unavailable("down", 1)

    monkeypatch.setattr(Drive, "remove_partial_upload", fails)
    address = await tus.create()
    value = b64encode(hashlib.sha256(CONTENT if right else b"other").digest()).decode()
    answer = await tus.patch(address, 0, CONTENT, Upload_Checksum=f"sha256 {value}")
    assert answer.status_code == (204 if right else 460), answer.text
    monkeypatch.setattr(Drive, "remove_partial_upload", remove)
    features = gateway.services.gateway.operations.args[0]  # type: ignore[attr-defined]
    await sweep_uploads(features.uploads.uploads, features.trees.pool)
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
    addresses = [await tus.create(name=f"{number}.bin") for number in range(access.HELD_AT_ONCE)]
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
    monkeypatch.delattr(DriveView, "read_to_compare")
    final = {"Upload-Concat": "final;" + " ".join(parts), "Upload-Metadata": metadata(filename="a.bin")}
    answer = await tus.call("POST", Want_Repr_Digest="sha-256=5", **final)
    assert (answer.status_code, answer.headers["Repr-Digest"]) == (201, sha256_of(CONTENT))
    shown = await gateway.call("HEAD", "a.bin", headers={"Want-Repr-Digest": "sha-256=1"})
    assert shown.headers["Repr-Digest"] == sha256_of(CONTENT)


async def test_a_digest_of_every_upload(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.digest": "always"})
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


async def test_a_digest_says_nothing_to_those_who_may_not_download(gateway: Gateway, tus: Tus) -> None:
    await gateway.call("PUT", "file", content=b"secret", headers={"Want-Repr-Digest": "sha-256=1"})
    shown = await gateway.list("file", "watcher", action="STAT", fields="digest")
    assert "digest" not in shown.json()
