import asyncio
import os
from collections.abc import Iterable
from typing import Any

import pytest

from portico.api.requests import FILESYSTEM
from portico.drive.connection_pool import ConnectionPool
from portico.providers.local.provider import LocalProvider

from .conftest import OWN_GATEWAY, SHARES_GATEWAY, OpenGateway
from .gateways import MULTIPART, Answer, Gateway, address, form, named, part
from .uploads import OLD, send, stored

pytestmark = SHARES_GATEWAY

# What is stored


async def test_an_upload_answers_204_and_the_file_is_there(gateway: Gateway) -> None:
    response = await gateway.upload("", {"a.txt": b"hello"})
    assert (response.status_code, response.content) == (204, b"")
    assert stored(gateway) == {"a.txt": b"hello"}
    (_, entry) = (await gateway.list()).json()["content"]
    assert (entry["name"], entry["size"], entry["contentType"]) == ("a.txt", 5, "text/plain")
    assert gateway.left_over == []


async def test_many_files_in_one_request(gateway: Gateway) -> None:
    files = {f"{number}.bin": os.urandom(number * 1000) for number in range(20)}
    assert (await gateway.upload("in/here", files)).status_code == 204
    assert stored(gateway) == {f"in/here/{name}": content for name, content in files.items()}


@pytest.mark.parametrize("size", [0, 1, 2**16 - 1, 2**16, 2**20 - 1, 2**20, 2**20 + 1, 3 * 2**20 + 7])
async def test_bytes_in_are_bytes_out(gateway: Gateway, size: int) -> None:
    content = os.urandom(size)
    assert (await gateway.upload("", {"file": content})).status_code == 204
    assert (await gateway.call("GET", "file")).content == content


async def test_a_missing_folder_is_made_with_its_parents(gateway: Gateway) -> None:
    gateway.files.rmdir()
    assert (await gateway.upload("a/b/c", {"d.txt": b"x"})).status_code == 204
    assert stored(gateway) == {"a/b/c/d.txt": b"x"}


async def test_the_target_may_not_be_a_file(gateway: Gateway) -> None:
    gateway.put("file", OLD)
    for path in ("file", "file/below"):
        response = await gateway.upload(path, {"a.txt": b"x"})
        assert (response.status_code, response.json()["code"]) == (409, "not-a-folder"), path
    assert stored(gateway) == {"file": OLD}


async def test_a_file_does_not_take_the_place_of_a_folder(gateway: Gateway) -> None:
    (gateway.files / "a.txt").mkdir()
    for parameters in ({}, {"onConflict": "replace"}, {"onConflict": "fail"}):
        response = await gateway.upload("", {"a.txt": b"x"}, **parameters)
        assert (response.status_code, response.json()["code"]) == (409, "is-a-folder")
    assert (gateway.files / "a.txt").is_dir()


async def test_the_content_type_of_the_part_reaches_the_provider(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    types: list[str] = []
    write = LocalProvider.write

    async def spy(self: LocalProvider, path: Any, chunks: Any, content_type: str, *options: Any) -> Any:
        types.append(content_type)
        return await write(self, path, chunks, content_type, *options)

    monkeypatch.setattr(LocalProvider, "write", spy)
    disposition = 'form-data; name="data"; filename="{}.csv"'
    body = form(
        part(b"", disposition.format("a"), "Content-Type: text/plain; charset=utf-8"),
        part(b"", disposition.format("b")),
        part(b"", disposition.format("c"), "Content-Type: not a type"),
    )
    assert (await gateway.send_form(body)).status_code == 204
    assert types == ["text/plain; charset=utf-8", "text/csv", "text/csv"]


# Conflicts and rights


@pytest.mark.parametrize(
    ("user", "on_conflict", "status", "files"),
    [
        ("web", None, 204, {"a.txt": b"new"}),
        ("web", "replace", 204, {"a.txt": b"new"}),
        ("web", "fail", 409, {"a.txt": OLD}),
        ("web", "rename", 204, {"a.txt": OLD, "a (1).txt": b"new"}),
        ("writer", None, 409, {"a.txt": OLD}),
        ("writer", "replace", 403, {"a.txt": OLD}),
        ("writer", "fail", 409, {"a.txt": OLD}),
        ("writer", "rename", 204, {"a.txt": OLD, "a (1).txt": b"new"}),
        ("reader", None, 403, {"a.txt": OLD}),
        ("reader", "rename", 403, {"a.txt": OLD}),
        ("dropper", "rename", 204, {"a.txt": OLD, "a (1).txt": b"new"}),
    ],
)
async def test_when_the_name_is_taken(
    gateway: Gateway, user: str, on_conflict: str | None, status: int, files: dict[str, bytes]
) -> None:
    gateway.put("a.txt", OLD)
    parameters = {"onConflict": on_conflict} if on_conflict else {}
    response = await gateway.upload("", {"a.txt": b"new"}, user=user, **parameters)
    assert response.status_code == status
    if status != 204:
        assert response.json()["code"] == {403: "forbidden", 409: "already-exists"}[status]
    assert stored(gateway) == files
    assert gateway.left_over == []


# What the client hears


@pytest.mark.parametrize(
    ("name", "folder", "expected"),
    [
        ("scan.pdf", "docs", "/docs/scan%20(1).pdf"),
        ("scan.pdf", "", "/scan%20(1).pdf"),
        ("50%.txt", "a b/ü", "/a%20b/%C3%BC/50%25%20(1).txt"),
        ("a?b#c", "", "/a%3Fb%23c%20(1)"),
    ],
)
async def test_an_upload_of_one_file_says_where_it_is(gateway: Gateway, name: str, folder: str, expected: str) -> None:
    for place in (expected.replace("%20(1)", ""), expected):
        response = await gateway.upload(folder, {name: place.encode()}, onConflict="rename")
        assert (response.status_code, response.content) == (204, b"")
        assert response.headers["Content-Location"] == FILESYSTEM + place
        credentials = await gateway.sign_in()
        found = await gateway.client.get(response.headers["Content-Location"], headers=credentials)
        assert found.content == place.encode()


async def test_an_upload_of_several_files_names_no_single_place(gateway: Gateway) -> None:
    response = await gateway.upload("", {"a": b"", "b": b""})
    assert response.status_code == 204
    assert "Content-Location" not in response.headers


async def prefer(gateway: Gateway, *preferences: str, names: Iterable[str] = ("b", "a.txt", "c")) -> Answer:
    headers = [("Prefer", preference) for preference in preferences]
    body = form(*(named(name, name.encode() * 3) for name in names))
    credentials = (await gateway.sign_in("dropper")).items()
    headers += [*credentials, ("Content-Type", MULTIPART), ("Transfer-Encoding", "chunked")]
    return await gateway.raw("POST", f"{address('in')}?onConflict=rename".encode(), headers, [body])


async def test_entries_are_returned_as_they_are_listed_on_request(gateway: Gateway) -> None:
    gateway.put("in/a.txt")
    answer = await prefer(gateway, "return=representation")
    assert (answer.status, answer.header("Preference-Applied")) == (200, "return=representation")
    assert "content-location" not in dict(answer.headers)  # the body is no file
    listed = {entry["name"]: entry for entry in (await gateway.list("in")).json()["content"]}
    expected = [listed["b"], listed["a (1).txt"], listed["c"]]
    for entry, as_listed in zip(answer.json()["content"], expected, strict=True):
        assert {key: entry[key] for key in as_listed} == as_listed


@pytest.mark.parametrize(
    ("preferences", "status"),
    [
        (["return=representation"], 200),
        (["Return = representation"], 200),
        (['return="representation"; x=y'], 200),
        (["respond-async, wait=10, return=representation"], 200),
        (["wait=10", "return=representation"], 200),
        (["return=minimal"], 204),
        (["return=minimal, return=representation"], 204),
        (["return=REPRESENTATION"], 204),
        (["return"], 204),
        (["returns=representation"], 204),
        (['"' * 1000, ",;=,,"], 204),
    ],
)
async def test_a_preference_is_read_as_rfc_7240_says(gateway: Gateway, preferences: list[str], status: int) -> None:
    answer = await prefer(gateway, *preferences)
    assert answer.status == status
    assert ("preference-applied" in dict(answer.headers)) == (status == 200)


async def test_a_partial_failure_names_what_was_stored_by_its_final_name(gateway: Gateway) -> None:
    gateway.put("in/a")
    answer = await prefer(gateway, "return=representation", names=("a", "b", ".."))
    assert answer.status == 400
    assert (answer.json()["stored"], answer.json()["failed"]) == (["a (1)", "b"], [".."])


async def test_renaming_goes_on_counting(gateway: Gateway) -> None:
    for _ in range(3):
        assert (await gateway.upload("", {"a.tar.gz": b"x", "none": b"y"}, onConflict="rename")).is_success
    assert stored(gateway).keys() == {*("a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"), *("none", "none (1)", "none (2)")}


@pytest.mark.parametrize("value", ["", "REPLACE", "overwrite", "keep"])
async def test_an_unknown_way_out_of_a_conflict_is_refused(gateway: Gateway, value: str) -> None:
    response = await gateway.upload("", {"a.txt": b"x"}, onConflict=value)
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    assert stored(gateway) == {}


async def test_two_uploads_of_one_name_at_once_leave_one_whole_file(gateway: Gateway) -> None:
    contents = [bytes([number]) * 200_000 for number in range(8)]
    answers = await asyncio.gather(*(gateway.upload("", {"a": content}) for content in contents))
    assert {answer.status_code for answer in answers} == {204}
    assert stored(gateway)["a"] in contents
    answers = await asyncio.gather(*(gateway.upload("", {"b": content}, onConflict="fail") for content in contents))
    assert sorted(answer.status_code for answer in answers) == [204] + [409] * 7
    assert gateway.left_over == []


async def test_who_is_disabled_meanwhile_stores_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", -1.0)
    gateway.put("a.txt", OLD)

    async def disable() -> None:
        await gateway.users.change("web", disabled=True)

    body = form(named("a.txt"))
    answer = await send(gateway, [body[:-10], disable, body[-10:]])
    assert (answer.status, answer.json()["code"]) == (401, "not-signed-in")
    assert (answer.json()["stored"], answer.json()["failed"]) == ([], ["a.txt"])
    assert stored(gateway) == {"a.txt": OLD}
    assert gateway.left_over == []


async def test_who_is_disabled_before_the_body_is_sent_for_stores_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", 0.05)

    opened = ConnectionPool.of

    async def slow(*arguments: Any) -> Any:
        found = await opened(*arguments)
        await gateway.users.change("web", disabled=True)
        await asyncio.sleep(0.06)
        return found

    monkeypatch.setattr(ConnectionPool, "of", slow)
    answer = await gateway.upload("", {"a.txt": b"hello"})
    assert (answer.status_code, answer.json()["code"]) == (401, "not-signed-in")
    assert stored(gateway) == {}


async def test_an_upload_outlives_its_token(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portico.operations.actors.actor.TRUSTED_SECONDS", -1.0)

    async def log_out() -> None:
        await gateway.sessions.end(await gateway.sessions.session(token))

    credentials = await gateway.sign_in()
    token = credentials["Authorization"].removeprefix("Bearer ")
    body = form(named("a.txt"))
    headers = [*credentials.items(), ("Content-Type", MULTIPART)]
    answer = await gateway.raw("POST", address("").encode(), headers, [body[:-10], log_out, body[-10:]])
    assert answer.status == 204
    assert stored(gateway) == {"a.txt": b"content"}


# Limits and types


@OWN_GATEWAY
async def test_a_file_over_the_limit_is_refused_and_others_stay(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.max-file-size": "1000"})
    gateway.put("b", OLD)
    response = await gateway.upload("", {"a": b"x" * 1000, "b": b"x" * 1001, "c": b"x"})
    assert (response.status_code, response.json()["code"]) == (413, "too-large")
    assert response.json()["failed"] == ["b"]
    others = {"a": b"x" * 1000, "c": b"x"}
    assert stored(gateway) == {"b": OLD} | {name: others[name] for name in response.json()["stored"]}
    assert response.json()["stored"][0] == "a"
    assert gateway.left_over == []


@OWN_GATEWAY
async def test_files_over_the_limit_are_refused(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.max-files": "2"})
    assert (await gateway.upload("", {"a": b"", "b": b""})).status_code == 204
    response = await gateway.upload("", {"c": b"", "d": b"", "e": b""})
    assert (response.status_code, response.json()["code"]) == (413, "too-large")
    assert response.json()["stored"] == ["c", "d"]


@pytest.mark.parametrize("length", ["9" * 5000, "x", "-1", ""])
async def test_a_length_that_is_none_is_not_believed(gateway: Gateway, length: str) -> None:
    answer = await send(gateway, [form(named("a.txt"))], ("Content-Length", length))
    assert answer.status == 204
    assert stored(gateway) == {"a.txt": b"content"}


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "deflate", "gzip, identity", "x"])
async def test_a_content_coded_body_is_refused(gateway: Gateway, coding: str) -> None:
    answer = await send(gateway, [form(named("a.txt"))], ("Content-Encoding", coding))
    assert (answer.status, answer.json()["code"]) == (415, "unsupported-media-type")
    assert stored(gateway) == {}


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("", 415),
        ("application/octet-stream", 415),
        ("multipart/mixed; boundary=frontier", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary", 400),
        ("multipart/form-data; boundary=", 400),
        ('multipart/form-data; boundary=""', 400),
        (f"multipart/form-data; boundary={'b' * 71}", 400),
        ('multipart/form-data; boundary="b "', 400),
        ('multipart/form-data; boundary="b;c"', 400),
        ("multipart/form-data; boundary=b\xfc", 400),
        ("multipart/form-data; boundary=frontier; boundary=frontier", 400),
        ("multipart/form-data; boundary=other", 400),
    ],
)
async def test_a_content_type_that_will_not_do_is_refused(gateway: Gateway, content_type: str, status: int) -> None:
    headers = [*(await gateway.sign_in()).items(), ("Content-Type", content_type)]
    answer = await gateway.raw("POST", address("").encode(), headers, [form(named("a.txt"))])
    codes = {400: "invalid-request", 415: "unsupported-media-type"}
    assert (answer.status, answer.json()["code"]) == (status, codes[status])
    assert stored(gateway) == {}


async def test_two_content_types_are_refused(gateway: Gateway) -> None:
    answer = await send(gateway, [form(named("a.txt"))], ("Content-Type", "text/plain"))
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")


async def test_a_transfer_encoded_part_is_refused(gateway: Gateway) -> None:
    disposition = 'form-data; name="data"; filename="a"'
    for encoding, status in (("base64", 400), ("quoted-printable", 400), ("binary", 204), ("8BIT", 204)):
        body = form(part(b"eA==", disposition, f"Content-Transfer-Encoding: {encoding}"))
        assert (await gateway.send_form(body)).status_code == status, encoding
