"""Each request is carried out, the process ends before the answer is noted, and the client asks again."""

import os
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from portico.accounts.share_links import ShareLinks
from portico.model.errors import Unavailable

from ..conftest import OpenGateway
from ..gateways import MULTIPART, Gateway, address, form, named
from ..shares import SHARER, share
from .requests import KEY, content, is_replay, post, upload


@pytest.mark.parametrize("on_conflict", ["rename", "fail", "replace"])
async def test_an_upload(gateway: Gateway, crash: Callable[[], None], on_conflict: str) -> None:
    if on_conflict == "rename":
        gateway.put("a.txt", b"another")
    crash()
    first = await upload(gateway, b"x" * 10**6, onConflict=on_conflict)
    before = content(gateway)
    second = await upload(gateway, b"x" * 10**6, onConflict=on_conflict)
    crash()
    third = await upload(gateway, b"x" * 10**6, onConflict=on_conflict)
    assert {each.status_code for each in (first, second, third)} == {204}
    assert len({each.headers["Content-Location"] for each in (first, second, third)}) == 1
    assert content(gateway) == before
    assert not is_replay(third)
    assert is_replay(await upload(gateway, b"x" * 10**6, onConflict=on_conflict))
    assert gateway.left_over == []


@pytest.mark.parametrize("expects", [False, True], ids=["", "expect"])
async def test_a_conditional_put(gateway: Gateway, crash: Callable[[], None], expects: bool) -> None:
    cases: list[tuple[bool, dict[str, str], int]] = [
        (True, {"If-Match": '"{etag}"'}, 204),
        (True, {"If-Match": '"other", "{etag}"'}, 204),
        (True, {"If-Match": "*"}, 204),
        (True, {"If-None-Match": '"other", "another"'}, 204),
        (True, {"If-Match": '"{etag}"', "If-None-Match": '"other"'}, 204),
        (True, {"If-Unmodified-Since": "Fri, 31 Dec 2100 23:59:59 GMT"}, 204),
        (False, {"If-None-Match": "*"}, 201),
        (False, {"If-None-Match": '"other"'}, 201),
        (False, {"If-Unmodified-Since": "Fri, 31 Dec 2100 23:59:59 GMT"}, 201),
    ]
    for number, (there, condition, status) in enumerate(cases):
        name, etag = f"{number}.txt", ""
        if there:
            gateway.put(name, b"old")
            etag = (await gateway.call("HEAD", name)).headers["ETag"].strip('"')
        headers = {header: value.replace("{etag}", etag) for header, value in condition.items()}
        headers |= {"Idempotency-Key": f'"put-{number}"'}
        headers |= {"Expect": "100-continue"} if expects else {}
        answers = await _put_three_times(gateway, crash, name, headers)
        assert [each.status_code for each in answers] == [status] * 3, answers[-1].text
        for header in ("ETag", "Location", "Content-Location", "X-Modified"):
            assert len({each.headers.get(header) for each in answers}) == 1
        assert (gateway.files / name).read_bytes() == b"new"
        if etag in str(headers) and etag:
            other = headers | {"Idempotency-Key": f"other-{number}"}
            answer = await gateway.call("PUT", name, content=b"new", headers=other)
            assert answer.status_code == 412
    assert content(gateway).keys() == {f"{number}.txt" for number in range(len(cases))}


async def test_a_put_without_a_condition(gateway: Gateway, crash: Callable[[], None]) -> None:
    """It may be carried out again: the file holds the same."""
    gateway.put("a.txt", b"old")
    answers = await _put_three_times(gateway, crash, "a.txt", KEY)
    assert [each.status_code for each in answers] == [204] * 3
    assert content(gateway) == {"a.txt": b"new"}


async def _put_three_times(
    gateway: Gateway, crash: Callable[[], None], name: str, headers: dict[str, str]
) -> list[httpx2.Response]:
    """The process ends after each of the first two."""
    crash()
    answers = [await gateway.call("PUT", name, content=b"new", headers=headers) for _ in range(2)]
    crash()
    return [*answers, await gateway.call("PUT", name, content=b"new", headers=headers)]


async def test_an_upload_without_the_right_to_replace(gateway: Gateway, crash: Callable[[], None]) -> None:
    crash()
    for _ in range(2):
        assert (await upload(gateway, user="writer")).status_code == 204
    assert content(gateway) == {"a.txt": b"content"}


async def test_an_upload_of_a_user_who_may_not_read(
    sqlite_gateway: Gateway, crash: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may not find out what an older file holds."""
    gateway = sqlite_gateway
    crash()
    for _ in range(2):
        assert (await upload(gateway, user="dropper")).status_code == 204
    with monkeypatch.context() as patch:
        patch.setattr("portico.operations.files.replay._is_newer", lambda *_: False)
        assert (await upload(gateway, user="dropper")).status_code == 409


async def test_content_that_is_not_the_same(sqlite_gateway: Gateway, crash: Callable[[], None]) -> None:
    """Somebody else wrote the file meanwhile: nothing of either is lost."""
    gateway = sqlite_gateway
    crash()
    assert (await upload(gateway, onConflict="rename")).status_code == 204
    for other in (b"CONTENT", b"conten", b"content!"):
        gateway.put("a.txt", other)
        response = await upload(gateway, onConflict="rename")
        assert response.headers["Content-Location"].endswith("a%20(1).txt")
        assert content(gateway) == {"a.txt": other, "a (1).txt": b"content"}
        (gateway.files / "a (1).txt").unlink()
    key = {"Idempotency-Key": "fail"}
    gateway.put("a.txt", b"old")
    credentials = await gateway.sign_in()
    begun = [*credentials.items(), *key.items(), ("Content-Type", MULTIPART)]
    target = address("").encode() + b"?onConflict=fail"
    assert (await gateway.raw("POST", target, begun, [form(named("a.txt", b"new"))])).status == 409
    assert (await gateway.raw("POST", target, begun, [form(named("a.txt", b"new"))])).status == 409
    assert content(gateway)["a.txt"] == b"old"


async def test_several_files(gateway: Gateway, crash: Callable[[], None]) -> None:
    """The process ends after the first of two files."""
    gateway.put("a", b"another")
    credentials = await gateway.sign_in()
    headers = [*credentials.items(), *KEY.items(), ("Content-Type", MULTIPART)]
    target = address("").encode() + b"?onConflict=rename"
    body = form(named("a", b"1"), named("b", b"2"))
    cut = body.index(b"2\r\n")
    assert (await gateway.raw("POST", target, headers, [body[:cut], ConnectionError()])).status == 400
    assert content(gateway) == {"a": b"another", "a (1)": b"1"}
    assert (await gateway.raw("POST", target, headers, [body])).status == 204
    assert content(gateway) == {"a": b"another", "a (1)": b"1", "b": b"2"}


@pytest.mark.parametrize("on_conflict", ["rename", "fail", "replace"])
@pytest.mark.parametrize("action", ["MOVE", "COPY"])
async def test_a_transfer(gateway: Gateway, crash: Callable[[], None], action: str, on_conflict: str) -> None:
    gateway.put("a")
    if on_conflict != "fail":
        gateway.put("b", b"old")
    crash()
    answers = [await post(gateway, "a", action=action, target="/b", onConflict=on_conflict)]
    before = content(gateway)
    answers.append(await post(gateway, "a", action=action, target="/b", onConflict=on_conflict))
    crash()
    answers.append(await post(gateway, "a", action=action, target="/b", onConflict=on_conflict))
    place = "b%20(1)" if on_conflict == "rename" else "b"
    assert {(each.status_code, each.headers["Location"]) for each in answers} == {(201, f"{address('')}/{place}")}
    assert content(gateway) == before


async def test_a_transfer_onto_something_that_was_there(sqlite_gateway: Gateway, crash: Callable[[], None]) -> None:
    gateway = sqlite_gateway
    gateway.put("a")
    gateway.put("b", b"CONTENT")
    crash()
    for _ in range(2):
        response = await post(gateway, "a", action="COPY", target="/b", onConflict="fail")
        assert response.status_code == 409


async def test_a_deletion(gateway: Gateway, crash: Callable[[], None]) -> None:
    gateway.put("a")
    crash()
    for _ in range(2):
        assert (await gateway.call("DELETE", "a", headers=KEY)).status_code == 204


async def test_links_of_a_deletion_that_is_repeated_end(gateway: Gateway, crash: Callable[[], None]) -> None:
    """The process ended after the deletion, before its links were ended."""

    async def interrupted(*_: Any, **__: Any) -> None:
        raise Unavailable("The process has ended.")

    async def delete() -> int:
        recursive = {"recursive": "true"}
        return (await gateway.call("DELETE", "box", user=SHARER, headers=KEY, params=recursive)).status_code

    gateway.put("box/a", b"shared")
    links = [await share(gateway, path) for path in ("/box", "/box/a")]
    crash()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShareLinks, "deleted", interrupted)
        assert await delete() == 204
    assert await delete() == 204
    gateway.put("box/a", b"other")
    for link in links:
        assert (await link.open()).json()["code"] == "target-gone"


async def test_a_new_file_in_the_place_of_what_is_gone(sqlite_gateway: Gateway, crash: Callable[[], None]) -> None:
    """It is neither deleted nor moved over the file that was moved."""
    gateway = sqlite_gateway
    gateway.put("a")
    gateway.put("x")
    crash()
    assert (await gateway.call("DELETE", "x", headers={"Idempotency-Key": "x"})).status_code == 204
    assert (await post(gateway, "a", action="MOVE", target="/b", onConflict="replace")).status_code == 201
    for name in ("a", "x"):
        os.utime(gateway.put(name, b"new"), None)
    for response in (
        await gateway.call("DELETE", "x", headers={"Idempotency-Key": "x"}),
        await post(gateway, "a", action="MOVE", target="/b", onConflict="replace"),
    ):
        assert (response.status_code, response.json()["code"]) == (412, "changed")
    assert content(gateway) == {"a": b"new", "b": b"content", "x": b"new"}


async def test_what_was_interrupted_is_audited_when_it_is_repeated(
    open_gateway: OpenGateway, crash: Callable[[], None]
) -> None:
    gateway = await open_gateway(**{"audit.required": "true"})
    crash()
    for _ in range(2):
        assert (await upload(gateway, onConflict="fail")).status_code == 204
    lines = (gateway.settings.home / "audit.log").read_text().splitlines()
    assert len([line for line in lines if '"upload"' in line]) == 4  # begun and done, twice
