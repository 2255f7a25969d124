"""A digest that comes with an upload is verified before anything is stored, or the upload is refused."""

import hashlib
import os
import threading
from base64 import b64encode

import httpx2
import pytest

from portico.operations.files.digests import Hashing
from portico.store.digests import FileDigests

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, OpenGateway
from .gateways import MULTIPART, Answer, Gateway, address, form, part

pytestmark = SHARES_GATEWAY

ALGORITHMS = {"sha-512": "sha512", "sha-256": "sha256", "sha": "sha1", "md5": "md5"}
CONTENT = b"what was meant to be stored"
OLD = b"the old content"
MISMATCH = "digest-mismatch"


def digest(algorithm: str, content: bytes) -> str:
    return b64encode(hashlib.new(ALGORITHMS[algorithm], content).digest()).decode()


def fields(content: bytes) -> list[tuple[str, str]]:
    """Every way to send a digest."""
    return [
        ("Content-MD5", digest("md5", content)),
        *(("Content-Digest", f"{name}=:{digest(name, content)}:") for name in ALGORITHMS),
        *(("Repr-Digest", f"{name}=:{digest(name, content)}:") for name in ALGORITHMS),
        *(("Digest", f"{name}={digest(name, content)}") for name in ALGORITHMS),
        ("Content-Digest", ", ".join(f"{name}=:{digest(name, content)}:" for name in ALGORITHMS)),
        ("Content-Digest", f"unixsum=:AAAAAA==:, sha-256=:{digest('sha-256', content)}:;by=us"),
        ("content-md5", digest("md5", content).rstrip("=")),
    ]


MALFORMED = [
    ("Content-MD5", ""),
    ("Content-MD5", "not base64"),
    ("Content-MD5", hashlib.md5(CONTENT).hexdigest()),
    ("Content-MD5", f"{digest('md5', CONTENT)}, {digest('md5', CONTENT)}"),
    ("Content-Digest", ""),
    ("Content-Digest", "sha-256"),
    ("Content-Digest", f"sha-256={digest('sha-256', CONTENT)}"),
    ("Content-Digest", f"sha-256=:{digest('md5', CONTENT)}:"),
    ("Content-Digest", f"sha-256=:{digest('sha-256', CONTENT)}"),
    ("Content-Digest", f"sha-256=:{digest('sha-256', CONTENT)}:,"),
    ("Repr-Digest", "sha-256=:===:"),
    ("Digest", f"sha-256=:{digest('sha-256', CONTENT)}:"),
]
UNSUPPORTED = [
    ("Content-Digest", "unixsum=:AAAAAA==:"),
    ("Repr-Digest", "unixsum=:AAAAAA==:, sha3=:AAAAAA==:"),
    ("Digest", "adler32=03da0195"),
]


def file(name: str, content: bytes, *headers: tuple[str, str]) -> bytes:
    lines = [f"{field}: {value}" for field, value in headers]
    return part(content, f'form-data; name="data"; filename="{name}"', *lines)


async def send(gateway: Gateway, body: bytes, *headers: tuple[str, str], piece: int = 7) -> Answer:
    credentials = (await gateway.sign_in()).items()
    steps = [body[start : start + piece] for start in range(0, len(body), piece)]
    more = [*credentials, ("Content-Type", MULTIPART), ("Transfer-Encoding", "chunked"), *headers]
    return await gateway.raw("POST", address("").encode(), more, steps)


def stored(gateway: Gateway) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in gateway.files.iterdir()}


def refused(gateway: Gateway, answer: Answer, kept: dict[str, bytes], code: str = "invalid-request") -> str:
    assert (answer.status, answer.json()["code"]) == (400, code)
    assert stored(gateway) == kept
    assert gateway.left_over == []
    return str(answer.json()["detail"])


async def test_the_right_digest_of_a_part_is_accepted(gateway: Gateway) -> None:
    ways = fields(CONTENT)
    body = form(*(file(str(number), CONTENT, way) for number, way in enumerate(ways)))
    assert (await send(gateway, body)).status == 204
    assert stored(gateway) == {str(number): CONTENT for number in range(len(ways))}


@pytest.mark.parametrize("way", fields(CONTENT))
async def test_a_part_that_does_not_match_its_digest_is_not_stored(gateway: Gateway, way: tuple[str, str]) -> None:
    gateway.put("file", OLD)
    answer = await send(gateway, form(file("first", b"kept"), file("file", CONTENT[:-1] + b"?", way)))
    detail = refused(gateway, answer, {"first": b"kept", "file": OLD}, MISMATCH)
    assert "doesn't match" in detail
    assert (answer.json()["stored"], answer.json()["failed"]) == (["first"], ["file"])


async def test_each_of_several_digests_must_match(gateway: Gateway) -> None:
    wrong = ("Repr-Digest", f"md5=:{digest('md5', CONTENT)}:, sha-256=:{digest('sha-256', OLD)}:")
    refused(gateway, await send(gateway, form(file("file", CONTENT, wrong))), {}, MISMATCH)
    right = ("Content-MD5", digest("md5", CONTENT))
    refused(gateway, await send(gateway, form(file("file", CONTENT, right, wrong))), {}, MISMATCH)


@pytest.mark.parametrize("way", range(len(fields(b""))))
async def test_the_digest_of_a_body_with_one_file_is_verified(gateway: Gateway, way: int) -> None:
    body = form(file("file", CONTENT)) + b"an epilogue\r\n"
    assert (await send(gateway, body, fields(body)[way])).status == 204
    assert stored(gateway) == {"file": CONTENT}
    for other in (body[:-1] + b" ", body.replace(b"meant", b"ment")):
        answer = await send(gateway, other, fields(body)[way])
        assert "doesn't match" in refused(gateway, answer, {"file": CONTENT}, MISMATCH)
        assert (answer.json()["stored"], answer.json()["failed"]) == ([], ["file"])


async def test_the_digest_of_a_body_with_several_files_is_refused_before_the_first_is_stored(gateway: Gateway) -> None:
    body = form(file("first", CONTENT), file("second", CONTENT))
    answer = await send(gateway, body, ("Content-Digest", f"sha-256=:{digest('sha-256', body)}:"))
    assert "each part" in refused(gateway, answer, {})


@pytest.mark.parametrize("way", MALFORMED + UNSUPPORTED)
async def test_what_cannot_be_verified_is_refused(gateway: Gateway, way: tuple[str, str]) -> None:
    gateway.put("file", OLD)
    for answer in (
        await send(gateway, form(file("file", CONTENT, way))),
        await send(gateway, form(file("file", CONTENT)), way),
    ):
        detail = refused(gateway, answer, {"file": OLD})
        assert way[0] in detail
        assert ("sha-256" in detail) == (way[0] != "Content-MD5")


async def test_a_header_given_twice(gateway: Gateway) -> None:
    body = form(file("file", CONTENT))
    right = ("Content-MD5", digest("md5", body))
    refused(gateway, await send(gateway, body, right, right), {})
    fits = [("Content-Digest", f"{name}=:{digest(name, body)}:") for name in ("md5", "sha-256")]
    assert (await send(gateway, body, *fits)).status == 204
    wrong = ("Content-Digest", f"sha-512=:{digest('sha-512', OLD)}:")
    refused(gateway, await send(gateway, body, *fits, wrong), {"file": CONTENT}, MISMATCH)


async def test_a_digest_that_is_announced_for_a_trailer_is_refused(gateway: Gateway) -> None:
    body = form(file("file", CONTENT))
    refused(gateway, await send(gateway, body, ("Trailer", "X-Other, Content-Digest")), {})
    in_part = form(file("file", CONTENT, ("Trailer", "Content-Digest")))
    refused(gateway, await send(gateway, in_part), {})
    assert (await send(gateway, body, ("Trailer", "X-Other"))).status == 204


async def test_a_refusal_comes_before_the_body_is_taken(gateway: Gateway) -> None:
    body = form(file("file", CONTENT))
    answer = await send(gateway, body, ("Content-MD5", "?"), ("Expect", "100-continue"))
    assert (answer.status, answer.taken) == (400, 0)


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 256 * 1024, 256 * 1024 + 1, 3 * 2**20 + 7])
async def test_large_bodies_are_hashed_whole_and_off_the_event_loop(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    here: list[int] = []
    add = Hashing._add

    def spy(self: Hashing, batch: list[bytes]) -> None:
        if threading.current_thread() is threading.main_thread():
            here.append(sum(map(len, batch)))
        add(self, batch)

    monkeypatch.setattr(Hashing, "_add", spy)
    content = os.urandom(size)
    body = form(file("file", content, ("Repr-Digest", f"sha-256=:{digest('sha-256', content)}:")))
    answer = await send(gateway, body, ("Content-MD5", digest("md5", body)), piece=50_000)
    assert answer.status == 204
    assert stored(gateway) == {"file": content}
    assert max(here, default=0) <= 64 * 1024


async def test_without_a_digest_nothing_is_hashed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("something is hashed")

    monkeypatch.setattr(Hashing, "__init__", made)
    assert (await send(gateway, form(file("file", CONTENT)))).status == 204


@OWN_GATEWAY
async def test_the_audit_log_has_the_refusal(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway()
    await send(gateway, form(file("file", CONTENT, ("Content-MD5", digest("md5", OLD)))))
    lines = (gateway.settings.home / "audit.log").read_text().splitlines()
    assert '"outcome":"digest-mismatch"' in lines[-1].replace(" ", "")


# Digests that are wanted

WANTED = {"Want-Repr-Digest": "sha-256=5, sha-512=0"}
FIELD = f"sha-256=:{digest('sha-256', CONTENT)}:"


async def put(
    gateway: Gateway, path: str, content: bytes = CONTENT, headers: dict[str, str] | None = None
) -> httpx2.Response:
    return await gateway.call("PUT", path, content=content, headers=headers)


async def shown(gateway: Gateway, path: str, user: str = "web") -> list[str | None]:
    """The digest of a file by every way to ask for it."""
    name = path.rpartition("/")[2]
    folder = await gateway.list(path.rpartition("/")[0], user, fields="digest")
    listed = [each.get("digest") for each in folder.json()["content"] if each["name"] == name]
    stat = await gateway.list(path, user, action="STAT", fields="digest")
    wanted = await gateway.call("GET", path, user=user, params={"action": "STAT"}, headers=WANTED)
    answers = [
        await gateway.call("GET", path, user=user, headers=WANTED),
        await gateway.call("HEAD", path, user=user, headers=WANTED),
        await gateway.call("GET", path, user=user, headers=WANTED | {"Range": "bytes=2-3"}),
    ]
    return [
        *listed,
        stat.json().get("digest"),
        wanted.json().get("digest"),
        *(answer.headers.get("Repr-Digest") for answer in answers),
    ]


async def test_a_wanted_digest_is_computed_and_shown(gateway: Gateway) -> None:
    made = await put(gateway, "a/file", headers=WANTED)
    assert (made.status_code, made.headers["Repr-Digest"]) == (201, FIELD)
    assert await shown(gateway, "a/file") == [FIELD] * 6
    assert await shown(gateway, "a/file", "reader") == [FIELD] * 6
    by_form = await send(gateway, form(file("b", CONTENT)), *WANTED.items())
    assert (by_form.status, by_form.header("Repr-Digest")) == (204, FIELD)
    assert await shown(gateway, "b") == [FIELD] * 6
    several = await send(gateway, form(file("c", CONTENT), file("d", OLD)), *WANTED.items())
    assert several.status == 204
    assert await shown(gateway, "c") == [FIELD] * 6
    assert (await shown(gateway, "d"))[0] == f"sha-256=:{digest('sha-256', OLD)}:"


async def test_a_digest_is_not_that_of_another_version(gateway: Gateway) -> None:
    await put(gateway, "file", headers=WANTED)
    await put(gateway, "file", b"shorter")
    assert await shown(gateway, "file") == [None] * 6
    await put(gateway, "file", headers=WANTED)
    (gateway.files / "file").write_bytes(b"behind the gateway's back")
    assert await shown(gateway, "file") == [None] * 6


@OWN_GATEWAY
async def test_a_user_with_another_root_sees_the_same_digest(gateway: Gateway) -> None:
    await put(gateway, "sub/file", headers=WANTED)
    await gateway.users.change("reader", root="/web/sub")
    assert await shown(gateway, "file", "reader") == [FIELD] * 6


async def test_a_renamed_file_has_the_digest(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    made = await gateway.call("PUT", "file", content=CONTENT, params={"onConflict": "rename"}, headers=WANTED)
    assert made.headers["Repr-Digest"] == FIELD
    assert await shown(gateway, "file (1)") == [FIELD] * 6
    assert await shown(gateway, "file") == [None] * 6


async def test_a_verified_digest_is_returned_but_not_recorded(gateway: Gateway) -> None:
    made = await put(gateway, "file", headers={"Repr-Digest": FIELD})
    assert made.headers["Repr-Digest"] == FIELD
    assert await shown(gateway, "file") == [None] * 6


@OWN_GATEWAY
async def test_nothing_is_asked_of_the_database_without_a_wish(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(FileDigests, "find", never)
    monkeypatch.setattr(FileDigests, "record", never)
    assert (await put(gateway, "file")).status_code == 201
    assert (await send(gateway, form(file("b", CONTENT)))).status == 204
    for wish in ({}, {"Want-Repr-Digest": "sha-256=0"}, {"Want-Repr-Digest": "sha-512=10"}):
        for method in ("GET", "HEAD"):
            answer = await gateway.call(method, "file", headers=wish)
            assert (answer.status_code, "Repr-Digest" in answer.headers) == (200, False)
        assert "digest" not in (await gateway.list("file", action="STAT")).json()
    assert "digest" not in (await gateway.list("")).text


async def test_a_listing_shows_no_digest_of_another_file_with_the_same_size_and_time(gateway: Gateway) -> None:
    moment = {"X-Modified": "2020-01-01T00:00:00Z"}
    await put(gateway, "file", headers=WANTED | moment)
    await put(gateway, "file", CONTENT[::-1], headers=moment)
    assert await shown(gateway, "file") == [None] * 6


async def test_a_known_digest_is_shown_without_a_wish(gateway: Gateway) -> None:
    await put(gateway, "file", headers=WANTED)
    assert (await gateway.list("file", action="STAT")).json()["digest"] == FIELD
    for method in ("GET", "HEAD"):
        assert (await gateway.call(method, "file")).headers["Repr-Digest"] == FIELD
    assert "Repr-Digest" not in (await gateway.call("GET", "file", headers={"Range": "bytes=0-1"})).headers
    assert "digest" not in (await gateway.list("")).text


@OWN_GATEWAY
async def test_always(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.digest": "always"})
    assert (await put(gateway, "file")).headers["Repr-Digest"] == FIELD
    by_form = await send(gateway, form(file("b", CONTENT)))
    assert "repr-digest" not in dict(by_form.headers)  # the answer to a plain form stays as it is
    for name in ("file", "b"):
        assert await shown(gateway, name) == [FIELD] * 6


@pytest.mark.parametrize("fields", ["", "Digest", "digest,size", "etag"])
async def test_there_is_no_other_field(gateway: Gateway, fields: str) -> None:
    gateway.put("file")
    for answer in (await gateway.list(fields=fields), await gateway.list("file", action="STAT", fields=fields)):
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
        assert "must be digest" in answer.json()["detail"]


async def test_a_ticket_shows_the_digest_of_its_file(gateway: Gateway) -> None:
    await put(gateway, "file", headers=WANTED)
    ticket = (await gateway.call("POST", "file", params={"action": "TICKET"})).json()["ticket"]
    answer = await gateway.client.get(address("file"), params={"ticket": ticket}, headers=WANTED)
    assert (answer.status_code, answer.headers["Repr-Digest"]) == (200, FIELD)
