"""`PUT`: the body is the file."""

import hashlib
import os
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from portico.providers.local.provider import LocalProvider

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, OpenGateway
from .gateways import MULTIPART, Answer, Gateway, address, form, named, part
from .uploads import OLD, stored

pytestmark = SHARES_GATEWAY

NEW = b"the new content"


async def put(gateway: Gateway, path: str, content: bytes = NEW, user: str = "web", **options: Any) -> httpx2.Response:
    return await gateway.call("PUT", path, user=user, content=content, **options)


async def put_raw(
    gateway: Gateway, path: str, *headers: tuple[str, str], steps: Any = (NEW,), user: str = "web"
) -> Answer:
    credentials = (await gateway.sign_in(user)).items()
    return await gateway.raw("PUT", address(path).encode(), [*credentials, *headers], steps)


def code(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


async def etag_of(gateway: Gateway, path: str) -> str:
    return (await gateway.call("HEAD", path)).headers["ETag"]


def audited(gateway: Gateway) -> list[str]:
    return (gateway.settings.home / "audit.log").read_text().splitlines()


async def test_a_new_file_and_one_that_is_replaced(gateway: Gateway) -> None:
    made = await put(gateway, "a/b/ü (1).txt")
    assert (made.status_code, made.content, made.headers["Content-Length"]) == (201, b"", "0")
    location = "/backend/1.0.0/filesystem/a/b/%C3%BC%20(1).txt"
    assert made.headers["Content-Location"] == made.headers["Location"] == location
    assert made.headers["ETag"] == await etag_of(gateway, "a/b/ü (1).txt")
    assert "Repr-Digest" not in made.headers
    stat = await gateway.list("a/b/ü (1).txt", action="STAT")
    assert made.headers["X-Modified"] == stat.json()["lastModified"]
    replaced = await put(gateway, "a/b/ü (1).txt", b"")
    assert (replaced.status_code, replaced.content) == (204, b"")
    assert replaced.headers["ETag"] == await etag_of(gateway, "a/b/ü (1).txt") != made.headers["ETag"]
    assert "Location" not in replaced.headers
    assert stored(gateway) == {"a/b/ü (1).txt": b""}
    assert gateway.left_over == []


@pytest.mark.parametrize("size", [0, 1, 2**20, 3 * 2**20 + 7])
@pytest.mark.parametrize("length", [True, False])
async def test_any_size_with_or_without_a_length(gateway: Gateway, size: int, length: bool) -> None:
    content = os.urandom(size)
    steps = [content[start : start + 50_000] for start in range(0, size, 50_000)]
    framing = ("Content-Length", str(size)) if length else ("Transfer-Encoding", "chunked")
    assert (await put_raw(gateway, "file", framing, steps=steps)).status == 201
    assert stored(gateway) == {"file": content}


async def test_the_content_type_is_that_of_the_request_or_of_the_name(gateway: Gateway) -> None:
    """`local` keeps none: what the provider is given counts."""
    given: list[str] = []
    write = LocalProvider.write

    async def spy(self: LocalProvider, path: Any, chunks: Any, content_type: str, *options: Any) -> Any:
        given.append(content_type)
        return await write(self, path, chunks, content_type, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalProvider, "write", spy)
        for sent in ("text/x-log; charset=utf-8", "application/x-www-form-urlencoded", "nonsense", None):
            headers = {"Content-Type": sent} if sent else {}
            assert (await put(gateway, "file.csv", headers=headers)).status_code in (201, 204)
    assert given == ["text/x-log; charset=utf-8", "text/csv", "text/csv", "text/csv"]


# Conditions


async def test_if_none_match_makes_a_file_only_if_there_is_none(gateway: Gateway) -> None:
    only_new = {"If-None-Match": "*"}
    assert (await put(gateway, "file", OLD, headers=only_new)).status_code == 201
    for parameters in ({}, {"onConflict": "replace"}, {"onConflict": "rename"}, {"onConflict": "fail"}):
        refused = await put(gateway, "file", headers=only_new, params=parameters)
        assert code(refused) == (412, "changed")
    assert stored(gateway) == {"file": OLD}


async def test_if_match_replaces_this_version_only(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    etag = await etag_of(gateway, "file")
    for wrong in ('"other"', f"W/{etag}", etag.strip('"'), "", '""', f'"other", W/{etag}'):
        assert code(await put(gateway, "file", b"?", headers={"If-Match": wrong})) == (412, "changed")
    assert stored(gateway) == {"file": OLD}
    replaced = await put(gateway, "file", headers={"If-Match": etag})
    assert replaced.status_code == 204
    assert code(await put(gateway, "file", b"?", headers={"If-Match": etag})) == (412, "changed")
    several = f'"other", {replaced.headers["ETag"]}'
    assert (await put(gateway, "file", headers={"If-Match": several})).status_code == 204
    assert code(await put(gateway, "none", headers={"If-Match": etag})) == (412, "changed")
    assert code(await put(gateway, "none", headers={"If-Match": '"None"'})) == (412, "changed")


async def test_if_match_any_needs_a_file(gateway: Gateway) -> None:
    anything = {"If-Match": "*"}
    assert code(await put(gateway, "file", headers=anything)) == (412, "changed")
    assert stored(gateway) == {}
    gateway.put("file", OLD)
    assert (await put(gateway, "file", headers=anything)).status_code == 204
    assert stored(gateway) == {"file": NEW}


async def test_both_conditions_must_hold(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    etag = await etag_of(gateway, "file")
    for match in ("*", etag, '"other"'):
        for none_match in ("*", etag, f"W/{etag}"):
            headers = {"If-Match": match, "If-None-Match": none_match}
            assert code(await put(gateway, "file", headers=headers)) == (412, "changed")
            assert code(await put(gateway, "none", headers=headers)) == (412, "changed")
    both = {"If-Match": etag, "If-None-Match": '"other"'}
    assert (await put(gateway, "file", headers=both)).status_code == 204


async def test_if_none_match_with_versions(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    etag = await etag_of(gateway, "file")
    for excluded in (etag, f"W/{etag}", f'"other", {etag}'):
        assert code(await put(gateway, "file", headers={"If-None-Match": excluded})) == (412, "changed")
    assert (await put(gateway, "file", headers={"If-None-Match": '"other"'})).status_code == 204
    assert (await put(gateway, "new", headers={"If-None-Match": '"other"'})).status_code == 201
    kept = await put(gateway, "new", headers={"If-None-Match": '"other"'}, params={"onConflict": "fail"})
    assert code(kept) == (409, "already-exists")


async def test_if_unmodified_since(gateway: Gateway) -> None:
    file = gateway.put("file", OLD)
    os.utime(file, (1_000_000_000, 1_000_000_000))
    before = {"If-Unmodified-Since": "Sat, 08 Sep 2001 00:00:00 GMT"}
    assert code(await put(gateway, "file", headers=before)) == (412, "changed")
    after = {"If-Unmodified-Since": "Mon, 10 Sep 2001 00:00:00 GMT"}
    assert (await put(gateway, "file", headers=after)).status_code == 204
    assert (await put(gateway, "file", headers={"If-Unmodified-Since": "nonsense"})).status_code == 204
    # With If-Match it does not count (RFC 9110, 13.1.4).
    both = before | {"If-Match": await etag_of(gateway, "file")}
    assert (await put(gateway, "file", headers=both)).status_code == 204


async def test_what_is_replaced_while_the_body_arrives_is_not_lost(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    etag = await etag_of(gateway, "file")

    async def replace() -> None:
        gateway.put("other", b"meanwhile").replace(gateway.files / "file")

    for condition in (("If-Match", etag), ("If-None-Match", '"other"'), ("If-Match", "*")):
        answer = await put_raw(gateway, "file", condition, steps=[NEW, replace, NEW])
        assert (answer.status, answer.json()["code"]) == (412, "changed")
        assert stored(gateway) == {"file": b"meanwhile"}

    async def make() -> None:
        gateway.put("late", b"meanwhile")

    for condition in (("If-None-Match", "*"), ("If-None-Match", '"other"')):
        (gateway.files / "late").unlink(missing_ok=True)
        answer = await put_raw(gateway, "late", condition, steps=[NEW, make, NEW])
        assert (answer.status, answer.json()["code"]) == (412, "changed")
        assert stored(gateway)["late"] == b"meanwhile"


@pytest.mark.parametrize("choice", ["fail", "rename"])
async def test_if_match_contradicts_a_choice_that_replaces_nothing(gateway: Gateway, choice: str) -> None:
    gateway.put("file", OLD)
    refused = await put(gateway, "file", headers={"If-Match": "*"}, params={"onConflict": choice})
    assert code(refused) == (400, "invalid-request")


async def test_on_conflict(gateway: Gateway) -> None:
    gateway.put("file.txt", OLD)
    assert code(await put(gateway, "file.txt", params={"onConflict": "fail"})) == (409, "already-exists")
    renamed = await put(gateway, "file.txt", params={"onConflict": "rename"})
    assert renamed.status_code == 201
    assert renamed.headers["Location"].endswith("/file%20(1).txt")
    assert renamed.headers["ETag"] == await etag_of(gateway, "file (1).txt")
    assert (await put(gateway, "file.txt", params={"onConflict": "replace"})).status_code == 204
    assert (await put(gateway, "new.txt", params={"onConflict": "fail"})).status_code == 201
    assert stored(gateway) == dict.fromkeys(("file.txt", "file (1).txt", "new.txt"), NEW)


async def test_rights(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    assert code(await put(gateway, "new", user="reader")) == (403, "forbidden")
    assert code(await put(gateway, "file", user="writer")) == (409, "already-exists")
    etag = await etag_of(gateway, "file")
    for headers in ({"If-Match": etag}, {"If-Match": "*"}):
        assert code(await put(gateway, "file", user="writer", headers=headers)) == (403, "forbidden")
    assert (await put(gateway, "new", user="dropper")).status_code == 201
    assert stored(gateway) == {"file": OLD, "new": NEW}


# What is refused


@pytest.mark.parametrize("path", ["", "folder/", "new/"])
async def test_the_address_of_a_folder(gateway: Gateway, path: str) -> None:
    (gateway.files / "folder").mkdir()
    answer = await put_raw(gateway, path)
    assert (answer.status, answer.json()["code"]) == (409, "is-a-folder")
    assert "add the file's name" in answer.json()["detail"]


async def test_a_folder_is_not_replaced(gateway: Gateway) -> None:
    (gateway.files / "folder").mkdir()
    assert code(await put(gateway, "folder")) == (409, "is-a-folder")
    gateway.put("file", OLD)
    assert code(await put(gateway, "file/new")) == (409, "not-a-folder")


@pytest.mark.parametrize(
    ("headers", "parameters", "expected"),
    [
        ({"Content-Range": "bytes 0-3/10"}, {}, (400, "invalid-request")),
        ({"Content-Encoding": "gzip"}, {}, (415, "unsupported-media-type")),
        ({"Content-Type": MULTIPART}, {}, (415, "unsupported-media-type")),
        ({}, {"action": "MKDIR"}, (400, "invalid-request")),
        ({}, {"onConflict": "never"}, (400, "invalid-request")),
        ({"X-Modified": "yesterday"}, {}, (400, "invalid-request")),
        ({"Content-MD5": "?"}, {}, (400, "invalid-request")),
        ({"Trailer": "Content-Digest"}, {}, (400, "invalid-request")),
    ],
)
async def test_what_is_no_upload_of_a_file(
    gateway: Gateway, headers: dict[str, str], parameters: dict[str, str], expected: tuple[int, str]
) -> None:
    gateway.put("file", OLD)
    assert code(await put(gateway, "file", headers=headers, params=parameters)) == expected
    assert stored(gateway) == {"file": OLD}
    assert gateway.left_over == []


@OWN_GATEWAY
async def test_limits(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.max-file-size": "10"})
    gateway.put("file", OLD)
    announced = await put_raw(gateway, "file", ("Content-Length", "11"), steps=[b"x" * 11])
    assert announced.status == 413
    chunked = await put_raw(gateway, "file", ("Transfer-Encoding", "chunked"), steps=[b"x" * 6, b"x" * 5])
    assert chunked.status == 413
    assert stored(gateway) == {"file": OLD}
    assert (await put(gateway, "file", b"x" * 10)).status_code == 204


async def test_a_body_that_is_cut_off_is_not_stored(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    answer = await put_raw(gateway, "file", ("Content-Length", "100"), steps=[NEW, ConnectionError()])
    assert answer.status == 400
    assert stored(gateway) == {"file": OLD}
    assert gateway.left_over == []


WAITING = ("Expect", "100-continue")


@pytest.mark.parametrize(
    ("path", "headers", "user", "status"),
    [
        ("file/new", [], "web", 409),
        ("folder", [], "web", 409),
        ("file", [("If-None-Match", "*")], "web", 412),
        ("file", [("If-Match", '"other"')], "web", 412),
        ("none", [("If-Match", '"other"')], "web", 412),
        ("file", [], "writer", 409),
        ("file", [], "reader", 403),
        ("file", [("Content-Range", "bytes 0-1/2")], "web", 400),
    ],
)
async def test_a_refusal_comes_before_the_body(
    gateway: Gateway, path: str, headers: list[tuple[str, str]], user: str, status: int
) -> None:
    gateway.put("file", OLD)
    (gateway.files / "folder").mkdir()
    answer = await put_raw(gateway, path, WAITING, *headers, user=user)
    assert (answer.status, answer.taken) == (status, 0)
    assert stored(gateway) == {"file": OLD}


async def test_who_waits_is_asked_for_the_body(gateway: Gateway) -> None:
    assert (await put_raw(gateway, "new/file", WAITING)).status == 201
    assert (await put_raw(gateway, "new/file", WAITING)).status == 204
    etag = await etag_of(gateway, "new/file")
    assert (await put_raw(gateway, "new/file", WAITING, ("If-Match", etag))).status == 204
    assert stored(gateway) == {"new/file": NEW}


# Beside the file itself


@pytest.fixture
async def gateway_without_trash(open_gateway: OpenGateway) -> Gateway:
    """It does not look for a file that is to be kept."""
    return await open_gateway(**{"trash.retention": "0"})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the storage is asked for."""
    names: list[str] = []
    stat = LocalProvider.stat

    async def spy(self: LocalProvider, path: Any) -> Any:
        names.append(path.name)
        return await stat(self, path)

    monkeypatch.setattr(LocalProvider, "stat", spy)
    return names


@OWN_GATEWAY
async def test_a_storage_that_says_it_is_not_asked(
    gateway_without_trash: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = gateway_without_trash

    async def never(*_: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(LocalProvider, "stat", never)
    assert (await put(gateway, "a/file")).status_code == 201
    assert (await put(gateway, "a/file")).status_code == 204


async def test_storage_that_keeps_replaced_files_is_not_asked(gateway: Gateway, asked: list[str]) -> None:
    assert (await put(gateway, "file")).status_code == 201
    assert (await put(gateway, "file")).status_code == 204
    assert asked == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2001-09-09T01:46:40Z", 1_000_000_000.0),
        ("2001-09-09T03:46:40.5+02:00", 1_000_000_000.5),
        ("2001-09-09T01:46:40", 1_000_000_000.0),
        ("1000000000", 1_000_000_000.0),
        ("1000000000.25", 1_000_000_000.25),
        ("0", 0.0),
    ],
)
async def test_the_modification_time_is_kept(gateway: Gateway, text: str, seconds: float) -> None:
    assert (await put(gateway, "file", headers={"X-Modified": text})).status_code == 201
    assert (gateway.files / "file").stat().st_mtime == seconds
    shown = (await gateway.call("GET", "file", params={"action": "STAT"})).json()["lastModified"]
    assert datetime.fromisoformat(shown) == datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "-1", "1e9", "1_000", "1969-12-31T23:59:59Z", "999999999999", "2026-13-01"]
)
async def test_a_time_that_is_none(gateway: Gateway, text: str) -> None:
    assert code(await put(gateway, "file", headers={"X-Modified": text})) == (400, "invalid-request")
    answer = await put_raw(gateway, "file", ("X-Modified", "1"), ("X-Modified", "2"))
    assert answer.status == 400
    assert stored(gateway) == {}


async def test_the_modification_times_of_a_form(gateway: Gateway) -> None:
    headers = {"Content-Type": MULTIPART, "X-Modified": "1000000000"}
    own = part(NEW, 'form-data; name="data"; filename="b"', "X-Modified: 1000000001.5")
    body = form(named("a", NEW), own)
    assert (await gateway.call("POST", "", content=body, headers=headers)).status_code == 204
    times = {name: (gateway.files / name).stat().st_mtime for name in "ab"}
    assert times == {"a": 1_000_000_000, "b": 1_000_000_001.5}
    wrong = form(named("c", NEW), part(NEW, 'form-data; name="data"; filename="d"', "X-Modified: never"))
    refused = await gateway.call("POST", "", content=wrong, headers=headers)
    assert code(refused) == (400, "invalid-request")
    assert (refused.json()["stored"], refused.json()["failed"]) == (["c"], ["d"])
    refused = await gateway.call("POST", "", content=body, headers=headers | {"X-Modified": "never"})
    assert code(refused) == (400, "invalid-request")


@pytest.mark.parametrize("field", ["Content-Digest", "Repr-Digest", "Content-MD5"])
async def test_a_digest_is_verified(gateway: Gateway, field: str) -> None:
    gateway.put("file", OLD)

    def value(content: bytes) -> str:
        if field == "Content-MD5":
            return b64encode(hashlib.md5(content).digest()).decode()
        return f"sha-256=:{b64encode(hashlib.sha256(content).digest()).decode()}:"

    assert code(await put(gateway, "file", headers={field: value(OLD)})) == (400, "digest-mismatch")
    assert stored(gateway) == {"file": OLD}
    assert gateway.left_over == []
    assert '"digest-mismatch"' in audited(gateway)[-1]
    assert (await put(gateway, "file", headers={field: value(NEW)})).status_code == 204
    assert stored(gateway) == {"file": NEW}


@OWN_GATEWAY
async def test_the_audit_log_names_the_file(gateway: Gateway) -> None:
    await put(gateway, "a/file")
    (line,) = [line for line in audited(gateway) if '"done"' in line]
    assert '"upload"' in line
    assert '"/a/file"' in line
    assert f'"bytes":{len(NEW)}' in line.replace(" ", "")


async def test_a_user_who_is_disabled_meanwhile_stores_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", -1.0)

    async def disable() -> None:
        await gateway.users.change("web", disabled=True)

    answer = await put_raw(gateway, "file", steps=[NEW, disable, NEW])
    assert answer.status == 401
    assert stored(gateway) == {}
