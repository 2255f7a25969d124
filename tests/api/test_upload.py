import asyncio
import os
from collections.abc import Iterable
from typing import Any

import pytest

from portico.api import edge, incoming, upload
from portico.api.queries import FILESYSTEM
from portico.api.session import drive_of
from portico.errors import ProviderUnavailable
from portico.providers.local import LocalProvider

from .conftest import OpenGateway
from .gateways import BOUNDARY, MULTIPART, Answer, Gateway, Step, address, form, named, part

OLD = b"what stood here before"


def stored(gateway: Gateway) -> dict[str, bytes]:
    """Every file of the user, by its path."""
    return {
        str(file.relative_to(gateway.files)): file.read_bytes()
        for file in gateway.files.rglob("*")
        if file.is_file()
    }


async def send(gateway: Gateway, steps: Iterable[Step], *more: tuple[str, str], path: str = "") -> Answer:
    """Upload step by step."""
    credentials = (await gateway.sign_in()).items()
    headers = [*credentials, ("Content-Type", MULTIPART), ("Transfer-Encoding", "chunked"), *more]
    return await gateway.raw("POST", address(path).encode(), headers, steps)


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

    async def spy(self: LocalProvider, path: Any, chunks: Any, content_type: str, **options: Any) -> Any:
        types.append(content_type)
        return await write(self, path, chunks, content_type, **options)

    monkeypatch.setattr(LocalProvider, "write", spy)
    disposition = 'form-data; name="data"; filename="{}.csv"'
    body = form(
        part(b"", disposition.format("a"), "Content-Type: text/plain; charset=utf-8"),
        part(b"", disposition.format("b")),
        part(b"", disposition.format("c"), "Content-Type: not a type"),
    )
    assert (await gateway.send_form(body)).status_code == 204
    assert types == ["text/plain; charset=utf-8", "text/csv", "text/csv"]


# Names


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('filename="a.txt"', "a.txt"),
        ("filename=a.txt", "a.txt"),
        ('filename="a b;c=d.txt"', "a b;c=d.txt"),
        ('filename="Grüße 报告 😀.txt"', "Grüße 报告 😀.txt"),
        ('filename="say %22hi%22.txt"', 'say "hi".txt'),
        ('filename="say \\"hi\\".txt"', 'say "hi".txt'),
        ('filename="100%.txt"', "100%.txt"),
        ('filename="%41.txt"', "%41.txt"),
        ("filename*=UTF-8''Gr%C3%BC%C3%9Fe.txt", "Grüße.txt"),
        ("filename*=utf-8'en'a%20b.txt", "a b.txt"),
        ("filename=\"old.txt\"; filename*=UTF-8''new.txt", "new.txt"),
        ('FileName="a.txt"', "a.txt"),
        ('filename="..."', "..."),
        ('filename="．．"', "．．"),
        ('filename=".hidden"', ".hidden"),
        ('filename="C:"', "C:"),
        ('filename="<img onerror=x>"', "<img onerror=x>"),
    ],
)
async def test_a_file_name_is_understood(gateway: Gateway, disposition: str, name: str) -> None:
    response = await gateway.send_form(form(part(b"x", f'form-data; name="data"; {disposition}')))
    assert response.status_code == 204, response.text
    assert stored(gateway) == {name: b"x"}


@pytest.mark.parametrize(
    "disposition",
    [
        "",
        'filename=""',
        "filename=",
        "filename*=UTF-8''",
        'filename="."',
        'filename=".."',
        'filename="../a"',
        'filename="a/b"',
        'filename="/a"',
        'filename="a\\b"',
        'filename="C:\\fakepath\\a"',
        'filename="a%0Ab"',
        'filename="a%0Db"',
        'filename="a\x01b"',
        'filename="a\tb"',
        'filename="a\x7fb"',
        "filename*=UTF-8''a%2Fb",
        "filename*=UTF-8''a%5Cb",
        "filename*=UTF-8''%2e%2e",
        "filename*=UTF-8''a%00b",
        "filename*=UTF-8''a%ff",
        "filename*=UTF-8''a%zz",
        "filename*=ISO-8859-1''a",
        "filename*=a",
        'filename="a"; filename="b"',
        'filename=".portico~x"',
        f'filename="{"n" * 256}"',
        'filename="open',
    ],
)
async def test_a_file_name_that_is_none_is_refused(gateway: Gateway, disposition: str) -> None:
    joint = "; " if disposition else ""
    response = await gateway.send_form(form(part(b"x", f'form-data; name="data"{joint}{disposition}')))
    assert response.status_code == 400, response.text
    assert response.json()["code"] in ("invalid-request", "invalid-path")
    assert stored(gateway) == {}
    assert gateway.left_over == []


async def test_a_name_that_is_not_utf8_is_refused(gateway: Gateway) -> None:
    body = form(named("a.txt")).replace(b"a.txt", b"\xff.txt")
    assert (await gateway.send_form(body)).status_code == 400
    assert stored(gateway) == {}


@pytest.mark.parametrize(
    "disposition",
    [
        'form-data; name="file"; filename="a.txt"',
        'form-data; name="Data"; filename="a.txt"',
        'form-data; name=""; filename="a.txt"',
        'form-data; filename="a.txt"',
        'form-data; name="data[]"; filename="a.txt"',
        'form-data; name="comment"',
        'attachment; name="data"; filename="a.txt"',
        'form-data; name="data"; name="data"; filename="a.txt"',
    ],
)
async def test_another_part_is_refused(gateway: Gateway, disposition: str) -> None:
    response = await gateway.send_form(form(named("first.txt"), part(b"x", disposition)))
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    assert response.json()["stored"] == ["first.txt"]
    assert stored(gateway) == {"first.txt": b"content"}


async def test_another_part_is_told_what_is_expected(gateway: Gateway) -> None:
    response = await gateway.send_form(form(part(b"x", 'form-data; name="comment"')))
    assert "'data'" in response.json()["detail"]


@pytest.mark.parametrize("body", [form(), b"", b"\r\n", f"--{BOUNDARY}\r\n".encode()])
async def test_no_part_at_all_is_refused(gateway: Gateway, body: bytes) -> None:
    response = await gateway.send_form(body)
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")


async def test_the_same_name_twice_is_refused(gateway: Gateway) -> None:
    response = await gateway.send_form(form(named("a.txt", b"one"), named("a.txt", b"two")))
    assert (response.status_code, response.json()["code"]) == (400, "invalid-request")
    assert (response.json()["stored"], response.json()["failed"]) == (["a.txt"], ["a.txt"])
    assert stored(gateway) == {"a.txt": b"one"}


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
async def test_an_upload_of_one_file_says_where_it_is(
    gateway: Gateway, name: str, folder: str, expected: str
) -> None:
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


async def test_whoever_asks_gets_the_entries_as_they_are_listed(gateway: Gateway) -> None:
    gateway.put("in/a.txt")
    answer = await prefer(gateway, "return=representation")
    assert (answer.status, answer.header("Preference-Applied")) == (200, "return=representation")
    assert "content-location" not in dict(answer.headers)  # the body is no file
    listed = {entry["name"]: entry for entry in (await gateway.list("in")).json()["content"]}
    assert answer.json() == {"content": [listed["b"], listed["a (1).txt"], listed["c"]]}


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
async def test_a_preference_is_read_as_rfc_7240_says(
    gateway: Gateway, preferences: list[str], status: int
) -> None:
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
    assert stored(gateway).keys() == {
        *("a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"),
        *("none", "none (1)", "none (2)"),
    }


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
    answers = await asyncio.gather(
        *(gateway.upload("", {"b": content}, onConflict="fail") for content in contents)
    )
    assert sorted(answer.status_code for answer in answers) == [204] + [409] * 7
    assert gateway.left_over == []


async def test_who_is_disabled_meanwhile_stores_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_TRUSTED_SECONDS", -1.0)
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
    monkeypatch.setattr(upload, "_TRUSTED_SECONDS", 0.05)

    async def slow(*arguments: Any, **options: Any) -> Any:
        found = await drive_of(*arguments, **options)
        await gateway.users.change("web", disabled=True)
        await asyncio.sleep(0.06)
        return found

    monkeypatch.setattr(upload, "drive_of", slow)
    answer = await gateway.upload("", {"a.txt": b"hello"})
    assert (answer.status_code, answer.json()["code"]) == (401, "not-signed-in")
    assert stored(gateway) == {}


async def test_an_upload_outlives_its_token(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_TRUSTED_SECONDS", -1.0)

    async def log_out() -> None:
        session = await gateway.services.tokens.session(token)
        await gateway.services.tokens.end(session)

    credentials = await gateway.sign_in()
    token = credentials["Authorization"].removeprefix("Bearer ")
    body = form(named("a.txt"))
    headers = [*credentials.items(), ("Content-Type", MULTIPART)]
    answer = await gateway.raw("POST", address("").encode(), headers, [body[:-10], log_out, body[-10:]])
    assert answer.status == 204
    assert stored(gateway) == {"a.txt": b"content"}


# Limits and types


async def test_a_file_over_the_limit_is_refused_and_the_others_stand(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"upload.max-file-size": "1000"})
    gateway.put("b", OLD)
    response = await gateway.upload("", {"a": b"x" * 1000, "b": b"x" * 1001, "c": b"x"})
    assert (response.status_code, response.json()["code"]) == (413, "too-large")
    assert (response.json()["stored"], response.json()["failed"]) == (["a"], ["b"])
    assert stored(gateway) == {"a": b"x" * 1000, "b": OLD}
    assert gateway.left_over == []


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
async def test_a_content_type_that_will_not_do_is_refused(
    gateway: Gateway, content_type: str, status: int
) -> None:
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


# What breaks off


TWO = form(named("a", b"first\r\n--front"), named("b", b"second"))
FIRST_END = TWO.index(b"--frontier\r\nContent", 3) + len(b"--frontier") + 2
SECOND_END = len(TWO) - len(b"\r\n")


async def test_a_body_cut_anywhere_stores_the_files_that_ended_and_never_a_part(gateway: Gateway) -> None:
    whole = {"a": b"first\r\n--front", "b": b"second"}
    for length in range(len(TWO) + 1):
        for name in ("a", "b"):
            gateway.put(name, OLD)
        answer = await send(gateway, [TWO[:length]])
        ended = [name for name, end in (("a", FIRST_END), ("b", SECOND_END)) if length >= end]
        assert stored(gateway) == {name: whole[name] if name in ended else OLD for name in whole}, length
        if length >= SECOND_END:
            assert answer.status == 204
        else:
            assert (answer.status, answer.json()["code"]) == (400, "invalid-request"), length
            assert answer.json()["stored"] == ended, length
            assert set(answer.json()["failed"]) <= whole.keys() - set(ended), length
    assert gateway.left_over == []


async def test_a_client_that_vanishes_anywhere_leaves_no_part(gateway: Gateway) -> None:
    whole = {"a": b"first\r\n--front", "b": b"second"}
    pieces = [TWO[start : start + 7] for start in range(0, len(TWO), 7)]
    for count in range(len(pieces) + 1):
        for name in ("a", "b"):
            gateway.put(name, OLD)
        answer = await send(gateway, [*pieces[:count], ConnectionError()])
        assert (answer.status, answer.json()["code"]) == (400, "invalid-request")  # it may still be listening
        sent = sum(map(len, pieces[:count]))
        ended = [name for name, end in (("a", FIRST_END), ("b", SECOND_END)) if sent >= end]
        assert stored(gateway) == {name: whole[name] if name in ended else OLD for name in whole}, count
    assert gateway.left_over == []


async def test_a_client_that_stops_sending_is_told(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(edge, "DRAINED_SECONDS", 0.05)
    gateway.put("b", OLD)

    async def stall() -> None:
        await asyncio.Event().wait()

    answer = await send(gateway, [TWO[: SECOND_END - 5], stall])
    assert (answer.status, answer.json()["code"]) == (408, "timeout")
    assert (answer.json()["stored"], answer.json()["failed"]) == (["a"], ["b"])
    assert stored(gateway) == {"a": b"first\r\n--front", "b": OLD}
    assert gateway.left_over == []


async def test_a_provider_that_fails_later_on_is_told_with_what_stands(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LocalProvider.write

    async def failing(self: LocalProvider, path: Any, chunks: Any, *given: Any, **options: Any) -> Any:
        if path.name == "b":
            async for _ in chunks:
                raise ProviderUnavailable("The storage is out of reach.", retry_after=7)
        return await write(self, path, chunks, *given, **options)

    monkeypatch.setattr(LocalProvider, "write", failing)
    response = await gateway.upload("", {"a": b"1", "b": b"2", "c": b"3"})
    assert (response.status_code, response.json()["code"]) == (503, "provider-unavailable")
    assert response.headers["Retry-After"] == "7"
    assert (response.json()["stored"], response.json()["failed"]) == (["a"], ["b"])
    assert stored(gateway) == {"a": b"1"}


async def test_a_refusal_before_the_body_names_no_files(gateway: Gateway) -> None:
    response = await gateway.upload("", {"a": b"1"}, user="reader")
    assert response.status_code == 403
    assert not {"stored", "failed"} & response.json().keys()


async def test_nothing_is_seen_of_a_file_before_its_end(gateway: Gateway) -> None:
    gateway.put("a", OLD)
    seen: list[bytes] = []

    async def look() -> None:
        seen.append((await gateway.call("GET", "a")).content)
        assert [entry["name"] for entry in (await gateway.list()).json()["content"]] == ["/", "a"]

    content = os.urandom(2**20)
    body = form(named("a", content))
    steps: list[Step] = []
    for start in range(0, len(body), 2**18):
        steps += [look, body[start : start + 2**18]]
    assert (await send(gateway, steps)).status == 204
    assert set(seen) == {OLD}
    assert stored(gateway) == {"a": content}
