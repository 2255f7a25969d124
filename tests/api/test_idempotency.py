"""A request that is sent again under its key: the same answer, and done once. On both databases."""

import asyncio
import os
import pathlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from portico.operations.operations import Operations
from portico.providers.local import LocalProvider
from portico.store.idempotency import Claim
from tests.servers.postgres import PostgresServer

from .conftest import OpenGateway, _populate, settings_of
from .gateways import MULTIPART, Gateway, address, form, named, running

KEY = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}
HOUR = 3600


@pytest.fixture(params=["sqlite", "postgresql"])
async def gateway(
    request: pytest.FixtureRequest,
    open_gateway: OpenGateway,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Gateway]:
    if request.param == "sqlite":
        yield await open_gateway()
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.new_database(request.getfixturevalue("migrated_template"))
    chosen = settings_of(tmp_path / "home", **{"database.url": url})
    (chosen.files_folder / "web").mkdir(parents=True)
    await _populate(chosen)
    async with running(chosen) as gateway:
        yield gateway


@pytest.fixture
async def sqlite_gateway(open_gateway: OpenGateway) -> Gateway:
    return await open_gateway()


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on, or until it is called again, the process ends before an answer is noted."""
    answer = Claim.answer

    async def end(claim: Claim, _: bytes) -> None:
        await claim._renewals.remove(claim)
        await claim._change(owned_until=0)

    def switch() -> None:
        monkeypatch.setattr(Claim, "answer", end if Claim.answer is answer else answer)

    return switch


async def post(gateway: Gateway, path: str, user: str = "web", **parameters: str) -> httpx2.Response:
    return await gateway.call("POST", path, user=user, headers=KEY, params=parameters)


async def upload(
    gateway: Gateway,
    content: bytes = b"content",
    user: str = "web",
    key: dict[str, str] = KEY,
    **parameters: str,
) -> httpx2.Response:
    files = [("data", ("a.txt", content))]
    return await gateway.call("POST", "", user=user, headers=key, files=files, params=parameters)


def is_replay(response: httpx2.Response) -> bool:
    return response.headers.get("Idempotency-Replayed") == "true"


def content(gateway: Gateway) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in gateway.files.iterdir()}


async def test_an_upload_is_stored_once_and_answered_twice(gateway: Gateway) -> None:
    first = await upload(gateway, onConflict="rename")
    second = await upload(gateway, onConflict="rename")
    assert (first.status_code, second.status_code) == (204, 204)
    assert not is_replay(first)
    assert is_replay(second)
    assert first.headers["Content-Location"] == second.headers["Content-Location"] == address("a.txt")
    assert content(gateway) == {"a.txt": b"content"}
    other = await upload(gateway, onConflict="rename", key={"Idempotency-Key": "another"})
    assert other.headers["Content-Location"].endswith("/a%20(1).txt")


async def test_a_body_is_replayed_too(gateway: Gateway) -> None:
    key = {**KEY, "Prefer": "return=representation"}
    first, second = [await upload(gateway, key=key) for _ in range(2)]
    assert first.json() == second.json()
    assert first.json()["content"][0]["absolutePath"] == "/a.txt"
    assert second.headers["Preference-Applied"] == "return=representation"
    assert second.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("action", ["MOVE", "COPY"])
async def test_a_transfer_is_done_once(gateway: Gateway, action: str) -> None:
    gateway.put("a")
    answers = [await post(gateway, "a", action=action, target="/b", onConflict="rename") for _ in range(3)]
    assert {(each.status_code, each.headers["Location"]) for each in answers} == {(201, address("b"))}
    assert sorted(content(gateway)) == (["b"] if action == "MOVE" else ["a", "b"])


async def test_a_deletion_and_a_folder(gateway: Gateway) -> None:
    gateway.put("a")
    for _ in range(2):
        assert (await gateway.call("DELETE", "a", headers=KEY)).status_code == 204
        assert (await post(gateway, "new", action="MKDIR")).status_code == 422
    folder = {"Idempotency-Key": "folder"}
    made = [
        await gateway.call(
            "POST", "new?action=MKDIR".partition("?")[0], headers=folder, params={"action": "MKDIR"}
        )
        for _ in range(2)
    ]
    assert [(each.status_code, is_replay(each)) for each in made] == [(201, False), (201, True)]


async def test_a_refusal_is_an_answer(gateway: Gateway) -> None:
    gateway.put("a.txt", b"old")
    first = await upload(gateway, onConflict="fail")
    (gateway.files / "a.txt").unlink()
    second = await upload(gateway, onConflict="fail")
    assert first.status_code == second.status_code == 409
    assert first.json() == second.json()
    assert is_replay(second)
    missing = {"Idempotency-Key": "missing"}
    answers = [await gateway.call("DELETE", "no", headers=missing) for _ in range(2)]
    assert [(each.status_code, is_replay(each)) for each in answers] == [(404, False), (404, True)]


async def test_another_request_under_the_key(sqlite_gateway: Gateway) -> None:
    gateway = sqlite_gateway
    assert (await upload(gateway)).status_code == 204
    for response in (
        await upload(gateway, b"of another length"),
        await upload(gateway, onConflict="fail"),
        await upload(gateway, key={**KEY, "Prefer": "return=representation"}),
        await upload(gateway, key={**KEY, "Content-MD5": "mgNkuembtIDdJeHwKEyFVQ=="}),
        await upload(gateway, key={**KEY, "If-Match": '"x"'}),
        await post(gateway, "", action="MKDIR"),
        await gateway.call("DELETE", "a.txt", headers=KEY),
    ):
        assert response.status_code == 422
        assert response.json()["code"] == "idempotency-key-reused"
    assert content(gateway) == {"a.txt": b"content"}
    # The key is the user's own, the boundary and the order of the query are of no importance.
    assert not is_replay(await upload(gateway, user="writer", onConflict="rename"))
    gateway.put("b")
    for query in ("action=COPY&target=/c", "target=/c&action=COPY"):
        credentials = await gateway.sign_in()
        headers = {**credentials, "Idempotency-Key": "order"}
        response = await gateway.client.post(f"{address('b')}?{query}", headers=headers)
        assert response.status_code == 201
    assert is_replay(response)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"x"', "x"),
        ("x", "x"),
        (r'"a\"b\\c"', r'a"b\c'),
        ("aZ09!#$%&'()*+-./:<=>?@[]^_`{|}~", "aZ09!#$%&'()*+-./:<=>?@[]^_`{|}~"),
        ("x" * 255, "x" * 255),
        ('"' + "x" * 255 + '"', "x" * 255),
    ],
)
def test_keys(text: str, same: str) -> None:
    from portico.api.idempotency import key_of

    assert key_of(text) == same


@pytest.mark.parametrize(
    "text", ["", '""', "x" * 256, "a b", '"a b"', 'a"b', '"a', '"a" ', '"a";p=1', "a,b", "ä", '"a\\b"']
)
async def test_malformed_keys(sqlite_gateway: Gateway, text: str) -> None:
    credentials = await sqlite_gateway.sign_in()
    headers = [*credentials.items(), ("Idempotency-Key", text)]
    answer = await sqlite_gateway.raw("DELETE", address("a").encode(), headers)
    assert (answer.status, answer.json()["code"]) == (400, "invalid-request")


async def test_a_key_that_is_sent_twice(sqlite_gateway: Gateway) -> None:
    credentials = await sqlite_gateway.sign_in()
    headers = [*credentials.items(), *(("Idempotency-Key", "x"),) * 2]
    assert (await sqlite_gateway.raw("DELETE", address("a").encode(), headers)).status == 400


async def test_nothing_is_stored_for_others(sqlite_gateway: Gateway) -> None:
    gateway = sqlite_gateway
    gateway.put("a")
    tickets = [await post(gateway, "a", action="TICKET") for _ in range(2)]
    assert tickets[0].json()["ticket"] != tickets[1].json()["ticket"]
    assert (await gateway.call("GET", "a", headers=KEY)).content == b"content"
    assert (await gateway.call("DELETE", "a", headers=KEY, user="reader")).status_code == 403
    answer = await gateway.client.delete(address("a"), headers=KEY)
    assert answer.status_code == 401
    assert (await gateway.call("DELETE", "a", headers=KEY)).status_code == 204


async def test_a_running_request(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.put("a")
    begun, go_on = asyncio.Event(), asyncio.Event()
    delete = LocalProvider.move_to_trash

    async def slow(*arguments: Any, **options: Any) -> None:
        begun.set()
        await go_on.wait()
        await delete(*arguments, **options)

    monkeypatch.setattr(LocalProvider, "move_to_trash", slow)
    running = asyncio.ensure_future(gateway.call("DELETE", "a", headers=KEY))
    await begun.wait()
    response = await gateway.call("DELETE", "a", headers=KEY)
    assert (response.status_code, response.json()["code"]) == (409, "request-running")
    assert int(response.headers["Retry-After"]) > 0
    go_on.set()
    assert (await running).status_code == 204
    assert is_replay(await gateway.call("DELETE", "a", headers=KEY))


async def test_of_many_at_once_one_is_carried_out(gateway: Gateway) -> None:
    async def until_answered() -> httpx2.Response:
        while (response := await upload(gateway, onConflict="rename")).status_code == 409:
            pass
        return response

    answers = await asyncio.gather(*(until_answered() for _ in range(8)))
    assert {each.status_code for each in answers} == {204}
    assert [is_replay(each) for each in answers].count(False) == 1
    assert content(gateway) == {"a.txt": b"content"}


async def test_the_body_of_a_repeated_request_is_read_but_not_stored(sqlite_gateway: Gateway) -> None:
    gateway = sqlite_gateway
    credentials = await gateway.sign_in()
    body = form(named("a.txt", b"x" * 2**20))
    headers = [
        *credentials.items(),
        *KEY.items(),
        ("Content-Type", MULTIPART),
        ("Content-Length", str(len(body))),
    ]
    target = address("").encode()
    assert (await gateway.raw("POST", target, headers, [body])).status == 204
    (gateway.files / "a.txt").unlink()
    answer = await gateway.raw("POST", target, headers, [body[:1000], body[1000:]])
    assert (answer.status, answer.taken) == (204, len(body))
    assert answer.header("idempotency-replayed") == "true"
    # A client that waits is answered before it sends anything, and another request cannot follow.
    answer = await gateway.raw("POST", target, [*headers, ("Expect", "100-continue")], [body])
    assert (answer.status, answer.taken, answer.header("connection")) == (204, 0, "close")
    assert content(gateway) == {}
    assert gateway.left_over == []


async def test_an_upload_that_is_cut_off_is_not_an_answer(gateway: Gateway) -> None:
    credentials = await gateway.sign_in()
    body = form(named("a.txt"))
    headers = [
        *credentials.items(),
        *KEY.items(),
        ("Content-Type", MULTIPART),
        ("Content-Length", str(len(body))),
    ]
    target = address("").encode() + b"?onConflict=fail"
    answer = await gateway.raw("POST", target, headers, [body[:-20], ConnectionError()])
    assert answer.status == 400
    answer = await gateway.raw("POST", target, headers, [body])
    assert answer.status == 204
    assert content(gateway) == {"a.txt": b"content"}


async def test_a_failure_of_the_storage_is_not_an_answer(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    from portico.errors import service_unavailable

    gateway.put("a")

    async def fail(*_: object, **__: object) -> None:
        raise service_unavailable("away", 1)

    with monkeypatch.context() as patched:
        patched.setattr(LocalProvider, "move", fail)
        assert (await post(gateway, "a", action="MOVE", target="/b")).status_code == 503
    response = await post(gateway, "a", action="MOVE", target="/b")
    assert response.status_code == 201
    assert not is_replay(response)
    assert sorted(content(gateway)) == ["b"]


async def test_a_bug_is_not_an_answer(sqlite_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(Operations, "make_folder", fail)
        assert (await post(sqlite_gateway, "a", action="MKDIR")).status_code == 500
    assert (await post(sqlite_gateway, "a", action="MKDIR")).status_code == 201


class TestAfterACrash:
    """Each request is carried out, the process ends before the answer is noted, and the client asks again."""

    @pytest.mark.parametrize("on_conflict", ["rename", "fail", "replace"])
    async def test_an_upload(self, gateway: Gateway, crash: Callable[[], None], on_conflict: str) -> None:
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
    async def test_a_conditional_put(
        self, gateway: Gateway, crash: Callable[[], None], expects: bool
    ) -> None:
        cases: list[tuple[bool, dict[str, str], int]] = [
            (True, {"If-Match": '"{etag}"'}, 204),
            (True, {"If-Match": '"other", "{etag}"'}, 204),
            (True, {"If-Match": "*"}, 204),
            (True, {"If-None-Match": '"other", "another"'}, 204),
            (True, {"If-Match": '"{etag}"', "If-None-Match": '"other"'}, 204),
            (True, {"If-Unmodified-Since": "Fri, 31 Dec 2100 23:59:59 GMT"}, 204),
            (True, {}, 204),
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
            crash()
            first = await gateway.call("PUT", name, content=b"new", headers=headers)
            second = await gateway.call("PUT", name, content=b"new", headers=headers)
            crash()
            third = await gateway.call("PUT", name, content=b"new", headers=headers)
            assert [each.status_code for each in (first, second, third)] == [status] * 3, third.text
            for header in ("ETag", "Location", "Content-Location", "X-Modified") if condition else ():
                assert len({each.headers.get(header) for each in (first, second, third)}) == 1
            assert (gateway.files / name).read_bytes() == b"new"
            if etag in str(headers) and etag:
                other = headers | {"Idempotency-Key": f"other-{number}"}
                answer = await gateway.call("PUT", name, content=b"new", headers=other)
                assert answer.status_code == 412
        assert content(gateway).keys() == {f"{number}.txt" for number in range(len(cases))}

    async def test_an_upload_without_the_right_to_replace(
        self, gateway: Gateway, crash: Callable[[], None]
    ) -> None:
        crash()
        for _ in range(2):
            assert (await upload(gateway, user="writer")).status_code == 204
        assert content(gateway) == {"a.txt": b"content"}

    async def test_an_upload_of_a_user_who_may_not_read(
        self, sqlite_gateway: Gateway, crash: Callable[[], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They may not find out what an older file holds."""
        gateway = sqlite_gateway
        crash()
        for _ in range(2):
            assert (await upload(gateway, user="dropper")).status_code == 204
        with monkeypatch.context() as patch:
            patch.setattr("portico.operations.recovery._is_newer", lambda *_: False)
            assert (await upload(gateway, user="dropper")).status_code == 409

    async def test_content_that_is_not_the_same(
        self, sqlite_gateway: Gateway, crash: Callable[[], None]
    ) -> None:
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

    async def test_several_files(self, gateway: Gateway, crash: Callable[[], None]) -> None:
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
    async def test_a_transfer(
        self, gateway: Gateway, crash: Callable[[], None], action: str, on_conflict: str
    ) -> None:
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
        assert {(each.status_code, each.headers["Location"]) for each in answers} == {
            (201, f"{address('')}/{place}")
        }
        assert content(gateway) == before

    async def test_a_transfer_onto_something_that_was_there(
        self, sqlite_gateway: Gateway, crash: Callable[[], None]
    ) -> None:
        gateway = sqlite_gateway
        gateway.put("a")
        gateway.put("b", b"CONTENT")
        crash()
        for _ in range(2):
            response = await post(gateway, "a", action="COPY", target="/b", onConflict="fail")
            assert response.status_code == 409

    async def test_a_deletion(self, gateway: Gateway, crash: Callable[[], None]) -> None:
        gateway.put("a")
        crash()
        for _ in range(2):
            assert (await gateway.call("DELETE", "a", headers=KEY)).status_code == 204

    async def test_a_new_file_in_the_place_of_what_is_gone(
        self, sqlite_gateway: Gateway, crash: Callable[[], None]
    ) -> None:
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


async def test_a_session_says_how_long_keys_are_kept(sqlite_gateway: Gateway) -> None:
    response = await sqlite_gateway.client.get("/backend/session", headers=await sqlite_gateway.sign_in())
    assert response.headers["Idempotency-Key-Lifetime"] == str(24 * HOUR)
