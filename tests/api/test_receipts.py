"""Receipts: what was stored, signed by the gateway."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import Any

import httpx2
import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from portico.operations.files.digests import Hashing
from portico.store.digests import FileDigests

from .conftest import OpenGateway
from .gateways import Gateway, form, named

KEY = "/backend/1.0.0/receipts/key"
CONTENT = b"what was meant to be stored"
ASKING = {"Prefer": "return=representation"}


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def key_of(gateway: Gateway) -> dict[str, Any]:
    (key,) = (await gateway.client.get(KEY)).json()["keys"]
    return key  # type: ignore[no-any-return]


async def claims_of(gateway: Gateway, receipt: str) -> dict[str, Any]:
    """What a receipt says, once its signature is verified."""
    key = await key_of(gateway)
    head, body, signature = receipt.split(".")
    assert msgspec.json.decode(decoded(head)) == {"alg": "EdDSA", "kid": key["kid"], "typ": "portico-receipt"}
    public = Ed25519PublicKey.from_public_bytes(decoded(key["x"]))
    public.verify(decoded(signature), f"{head}.{body}".encode())
    with pytest.raises(InvalidSignature):
        public.verify(decoded(signature), f"{head}.{body}x".encode())
    claims: dict[str, Any] = msgspec.json.decode(decoded(body))
    return claims


async def check(gateway: Gateway, response: httpx2.Response, path: str, content: bytes) -> dict[str, Any]:
    assert response.headers["Preference-Applied"] == "return=representation"
    (entry,) = [each for each in response.json()["content"] if each["absolutePath"] == path]
    stat = (await gateway.list(path[1:], action="STAT")).json()
    assert {key: entry[key] for key in stat} == stat
    sha256 = hashlib.sha256(content)
    etag = (await gateway.call("HEAD", path[1:])).headers["ETag"].strip('"')
    assert entry["etag"] == etag
    assert decoded(entry["digest"][9:-1].translate(str.maketrans("+/", "-_"))) == sha256.digest()
    claims = await claims_of(gateway, entry["receipt"])
    assert datetime.fromisoformat(entry["storedAt"])
    assert claims == {
        "id": entry["receiptId"],
        "path": path,
        "name": path.rpartition("/")[2],
        "size": len(content),
        "storedAt": entry["storedAt"],
        "user": "web",
        "etag": etag,
        "sha256": sha256.hexdigest(),
    }
    return entry  # type: ignore[no-any-return]


async def test_a_put(gateway: Gateway) -> None:
    made = await gateway.call("PUT", "a/ü.txt", content=CONTENT, headers=ASKING)
    assert made.status_code == 201
    entry = await check(gateway, made, "/a/ü.txt", CONTENT)
    assert made.headers["ETag"] == f'"{entry["etag"]}"'
    assert made.headers["Location"] == "/backend/1.0.0/filesystem/a/%C3%BC.txt"
    assert not {"content-location", "repr-digest"} & made.headers.keys()  # the body is not the file
    replaced = await gateway.call("PUT", "a/ü.txt", content=b"", headers=ASKING)
    assert replaced.status_code == 200
    other = await check(gateway, replaced, "/a/ü.txt", b"")
    assert other["receiptId"] != entry["receiptId"]


async def test_a_form(gateway: Gateway) -> None:
    gateway.put("a.txt")
    body = form(named("a.txt", CONTENT), named("b.txt", b""))
    credentials = {"Content-Type": "multipart/form-data; boundary=frontier", **ASKING}
    stored = await gateway.call("POST", "", content=body, headers=credentials, params={"onConflict": "rename"})
    assert stored.status_code == 200
    await check(gateway, stored, "/a (1).txt", CONTENT)
    await check(gateway, stored, "/b.txt", b"")


async def test_nobody_gets_a_receipt_who_does_not_ask(gateway: Gateway) -> None:
    for headers in ({}, {"Prefer": "return=minimal"}, {"Prefer": "respond-async"}):
        answer = await gateway.call("PUT", "file", content=CONTENT, headers=headers)
        assert answer.content == b""
        assert not {"preference-applied", "content-type"} & answer.headers.keys()


async def test_a_receipt_records_no_digest(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("recorded")

    monkeypatch.setattr(FileDigests, "record", never)
    assert (await gateway.call("PUT", "file", content=CONTENT, headers=ASKING)).status_code == 201


async def test_the_issuer_is_the_public_address(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"server.public-url": "https://files.example.com"})
    made = await gateway.call("PUT", "file", content=CONTENT, headers=ASKING)
    claims = await claims_of(gateway, made.json()["content"][0]["receipt"])
    assert claims["issuer"] == "https://files.example.com"


async def test_the_key(gateway: Gateway) -> None:
    for method in ("GET", "HEAD"):
        answer = await gateway.client.request(method, KEY)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/jwk-set+json"
        assert answer.headers["Cache-Control"] == "public, max-age=3600"
    key = await key_of(gateway)
    assert key | {"x": "", "kid": ""} == {
        "kty": "OKP",
        "crv": "Ed25519",
        "alg": "EdDSA",
        "use": "sig",
        "x": "",
        "kid": "",
    }
    print_of = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{key["x"]}"}}'.encode()).digest()
    assert key["kid"] == urlsafe_b64encode(print_of).rstrip(b"=").decode()
    assert (await gateway.client.post(KEY)).status_code == 405


@pytest.mark.parametrize("wish", ["return=representation; receipt=none", 'return="representation";receipt="none"'])
async def test_entries_without_receipts(gateway: Gateway, wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("hashed")

    monkeypatch.setattr(Hashing, "__init__", never)
    by_put = await gateway.call("PUT", "a", content=CONTENT, headers={"Prefer": wish})
    headers = {"Content-Type": "multipart/form-data; boundary=frontier", "Prefer": wish}
    by_form = await gateway.call("POST", "", content=form(named("b", CONTENT)), headers=headers)
    assert (by_put.status_code, by_form.status_code) == (201, 200)
    for answer in (by_put, by_form):
        (entry,) = answer.json()["content"]
        assert entry["etag"] == (await gateway.call("HEAD", entry["name"])).headers["ETag"].strip('"')
        assert not {"digest", "receipt", "receiptId", "storedAt"} & entry.keys()
