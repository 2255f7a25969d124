"""Large files in parts: what was received is not sent again, whatever breaks."""

import asyncio
import os
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portico.client import (
    AlreadyExists,
    AsyncClient,
    Client,
    ClientError,
    NotAGateway,
    NotFound,
    SourceChanged,
    Temporary,
)
from portico.client.transfers import upload_records

from ...gateways import Gateway
from ...servers.proxy import Altered, Call, FaultProxy, Lost, Reply, Reset, Torn
from ..conftest import MakeClient, both_clients
from ..faults import AWAY, BUSY
from .actions import CONTENT, PART, is_creation, is_part, is_question, methods, sent


@both_clients
@pytest.mark.parametrize("verify", [False, True])
def test_a_large_file_is_sent_in_parts(
    proxied: Client, proxy: FaultProxy, root: Path, large: Path, verify: bool
) -> None:
    done: list[int] = []
    entry = proxied.upload(large, "/a/b", verify=verify, progress=lambda _, count, __: done.append(count))
    assert entry is not None
    assert (entry.path, entry.size) == ("/a/b", len(CONTENT))
    assert (root / "a" / "b").read_bytes() == CONTENT
    assert methods(proxy) == ["POST", *["PATCH"] * 6]
    assert sent(proxy) == [(start, min(PART, len(CONTENT) - start)) for start in range(0, len(CONTENT), PART)]
    assert done == sorted(done)
    assert done[-1] == len(CONTENT)
    assert ["expect" in call.headers for call in proxy.calls if is_part(call)][:2] == [True, False]


@both_clients
@pytest.mark.parametrize("verify", [False, True])
def test_cuts_anywhere(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path, verify: bool
) -> None:
    rng = random.Random(verify)
    for number in range(6):
        at, start = rng.randrange(PART // 16), number * PART * 9 // 10

        def is_next(call: Call, start: int = start) -> bool:
            whole = is_part(call) and int(call.headers["content-length"]) >= PART // 16
            return whole and int(call.headers["upload-offset"]) >= start

        proxy.on(is_next, (Torn(at), Reset(at), Lost(), BUSY)[number % 4])
    proxied.upload(large, "/file", verify=verify)
    assert (root / "file").read_bytes() == CONTENT
    assert methods(proxy).count("POST") == 1
    assert gateway.staged == []


def test_what_arrived_is_not_sent_again(proxied: Client, proxy: FaultProxy, root: Path, large: Path) -> None:
    proxy.on(is_part, Torn(700_000))
    proxied.upload(large, "/file")
    assert methods(proxy)[:4] == ["POST", "PATCH", "HEAD", "PATCH"]
    assert sent(proxy)[1][0] == 700_000
    assert (root / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("on_conflict", [None, "replace", "fail", "rename"])
def test_the_last_answer_is_lost(proxied: Client, proxy: FaultProxy, root: Path, large: Path, on_conflict: Any) -> None:
    proxy.on(lambda call: is_part(call) and int(call.headers["content-length"]) < PART, Lost())
    entry = proxied.upload(large, "/file", on_conflict=on_conflict)
    assert entry is not None
    assert entry.path == "/file"
    assert [path.name for path in root.iterdir()] == ["file"]
    assert methods(proxy)[-2:] == ["PATCH", "HEAD"]


def test_names_that_are_taken(client: Client, root: Path, large: Path) -> None:
    (root / "file").touch()
    with pytest.raises(AlreadyExists):
        client.upload(large, "/file", on_conflict="fail")
    renamed = client.upload(large, "/file", on_conflict="rename")
    assert renamed is not None
    assert renamed.path == "/file (1)"
    assert (root / "file").read_bytes() == b""


def test_the_gateway_is_killed_in_the_middle(tmp_path: Path, large: Path) -> None:
    gateway = Gateway(tmp_path / "home")
    gateway.start()
    killed: list[int] = []

    def progress(_: str, done: int, __: int | None) -> None:
        if done > (2 * len(killed) + 1) * PART + PART // 2 and len(killed) < 2:
            gateway.kill()
            killed.append(done)
            gateway.start()

    try:
        with Client(gateway.url, username="web", password=gateway.password) as client:
            client.upload(large, "/file", progress=progress)
        assert len(killed) == 2
        assert (gateway.files / "web" / "file").read_bytes() == CONTENT
        assert gateway.staged == []
    finally:
        gateway.kill()


@pytest.mark.parametrize("verify", [False, True])
def test_a_token_that_ends_in_the_middle(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path, verify: bool
) -> None:
    ended: list[str] = []

    def progress(_: str, done: int, __: int | None) -> None:
        token = next(call.headers["authorization"] for call in proxy.calls if is_part(call))
        if done > 2 * PART and not ended:
            with gateway.client() as other:
                answer = other.post("/backend/logout", headers={"Authorization": token})
            assert answer.status_code < 300, answer.text
            ended.append(token)

    proxied.upload(large, "/file", progress=progress, verify=verify)
    assert ended
    assert (root / "file").read_bytes() == CONTENT
    assert methods(proxy).count("POST") == 1


def test_an_upload_that_another_request_takes_over(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path
) -> None:
    token: list[str] = []

    def progress(_: str, done: int, __: int | None) -> None:
        if done > 2 * PART + PART // 2 and not token:
            call = next(filter(is_part, proxy.calls))
            token.append(call.headers["authorization"])
            headers = {"Authorization": token[0], "Tus-Resumable": "1.0.0"}
            with gateway.client() as other:
                assert other.head(call.target, headers=headers).status_code == 200

    taken = Reply(409, {}, b'{"code":"upload-taken-over","requestId":"x"}')
    moved = Reply(409, {}, b'{"code":"offset-mismatch","requestId":"x"}')
    proxy.on(lambda call: is_part(call) and call.headers["upload-offset"] == str(3 * PART), taken, moved)
    proxied.upload(large, "/file", progress=progress)
    assert token
    assert (root / "file").read_bytes() == CONTENT


def test_a_question_that_another_request_interrupts(
    proxied: Client, proxy: FaultProxy, root: Path, large: Path
) -> None:
    """A 409 to HEAD is retried if it says that it is no conflict."""
    proxy.on(is_part, Torn(1000))
    proxy.on(is_question, Reply(409, {"X-Error-Code": "upload-taken-over"}))
    proxied.upload(large, "/file")
    assert (root / "file").read_bytes() == CONTENT
    assert methods(proxy)[:4] == ["POST", "PATCH", "HEAD", "HEAD"]


@pytest.mark.parametrize("code", [{}, {"X-Error-Code": "already-exists"}], ids=["older", "newer"])
def test_a_conflict_that_the_question_meets(
    proxied: Client, proxy: FaultProxy, root: Path, large: Path, code: dict[str, str]
) -> None:
    """The response to HEAD has no sentence; the gateway is asked for it."""
    proxy.on(is_part, Torn(1000))
    proxy.on(is_question, Reply(409, code))
    taken = b'{"code":"already-exists","detail":"It exists.","requestId":"x"}'
    proxy.on(lambda call: call.headers.get("content-length") == "0", Reply(409, {}, taken))
    with pytest.raises(AlreadyExists, match=r"It exists\."):
        proxied.upload(large, "/file", on_conflict="fail")


@pytest.mark.parametrize("times", [1, 9])
def test_one_that_vanishes_is_begun_again(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path, times: int
) -> None:
    ended: set[str] = set()

    def progress(_: str, done: int, __: int | None) -> None:
        target = next(call.target for call in reversed(proxy.calls) if is_part(call)) if done else ""
        if done == 2 * PART and target not in ended and len(ended) < times:
            ended.add(target)
            with gateway.signed_in(headers={"Tus-Resumable": "1.0.0"}) as other:
                assert other.delete(target).status_code == 204

    if times == 1:
        proxied.upload(large, "/file", progress=progress)
        assert (root / "file").read_bytes() == CONTENT
        assert methods(proxy).count("POST") == 2
    else:
        with pytest.raises(NotFound):
            proxied.upload(large, "/file", progress=progress)
        assert methods(proxy).count("POST") == 3


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_gateway_without_resumable_uploads(
    proxied: Client, proxy: FaultProxy, root: Path, large: Path, status: int
) -> None:
    proxy.on(is_creation, Reply(status), turns=9)
    for name in ("a", "b"):
        proxied.upload(large, f"/{name}")
        assert (root / name).read_bytes() == CONTENT
    assert sum(map(is_creation, proxy.calls)) == 1


def test_too_many_unfinished_uploads(proxied: Client, proxy: FaultProxy, root: Path, large: Path) -> None:
    proxy.on(is_creation, Reply(429, {"Retry-After": "60"}, b'{"code":"too-many-requests"}'))
    for name in ("a", "b"):
        proxied.upload(large, f"/{name}")
        assert (root / name).read_bytes() == CONTENT
    assert sum(map(is_creation, proxy.calls)) == 2


def test_a_proxy_that_limits_bodies(proxied: Client, proxy: FaultProxy, root: Path, large: Path) -> None:
    limit = 300_000
    proxy.on(lambda call: is_part(call) and int(call.headers["content-length"]) > limit, Reply(413), turns=99)
    proxied.upload(large, "/file")
    assert (root / "file").read_bytes() == CONTENT
    proxy.calls.clear()
    proxied.upload(large, "/file")
    assert max(size for _, size in sent(proxy)) == PART // 4
    proxy.on(is_part, Reply(413), turns=99)
    with pytest.raises(ClientError) as error:
        proxied.upload(large, "/file")
    assert error.value.code == "too-large"


def test_a_proxy_that_does_not_know_patch(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path
) -> None:
    proxy.on(is_part, Reply(405), turns=9)
    for name in ("a", "b"):
        proxied.upload(large, f"/{name}")
        assert (root / name).read_bytes() == CONTENT
    assert methods(proxy) == ["POST", "PATCH", "DELETE"]
    assert gateway.staged == []


@pytest.mark.parametrize("offset", ["", "-1", "x", str(2 * len(CONTENT)), "0"])
def test_an_answer_that_makes_no_sense(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path, offset: str
) -> None:
    def change(reply: Reply) -> Reply:
        headers = {name: value for name, value in reply.headers.items() if name.lower() != "upload-offset"}
        return replace(reply, headers={**headers, "Upload-Offset": offset})

    proxy.on(is_part, Altered(change), turns=9)
    if offset == "0":  # as if a proxy had lost it; the next question tells
        proxied.upload(large, "/file")
        assert (root / "file").read_bytes() == CONTENT
    else:
        with pytest.raises(NotAGateway):
            proxied.upload(large, "/file")
        assert methods(proxy)[-1] == "DELETE"
    assert gateway.staged == []


def test_one_who_may_only_upload(make: MakeClient, gateway: Gateway, large: Path) -> None:
    if "sender" not in gateway.command("user", "list"):
        words = ("user", "add", "sender", "--root", "/web", "--rights", "upload", "--password-stdin")
        gateway.command(*words, stdin="pass word")
    client = make(username="sender", password="pass word")
    for path, verify in (("/file", False), ("/file (1)", True)):
        entry = client.upload(large, "/file", on_conflict="rename", verify=verify)
        assert entry is not None
        assert (entry.path, entry.size) == (path, len(CONTENT))


def test_a_line_on_which_little_arrives_at_once(proxied: Client, proxy: FaultProxy, root: Path, large: Path) -> None:
    """Such as behind a proxy that hands on whole requests only."""
    proxy.on(lambda call: is_part(call) and int(call.headers["content-length"]) > PART // 2, Reset(1000), turns=2)
    proxied.upload(large, "/file")
    assert (root / "file").read_bytes() == CONTENT
    sizes = [size for _, size in sent(proxy)]
    assert sizes[0] == PART
    assert sizes[1] <= PART // 2


@both_clients
def test_a_part_that_is_altered_on_its_way(proxied: Client, proxy: FaultProxy, root: Path, large: Path) -> None:
    handed_on = proxy._ask
    altered: list[Call] = []

    async def ask(call: Call, headers: Any) -> Reply:
        if is_part(call) and call.headers["upload-offset"] == str(2 * PART) and not altered:
            altered.append(call)
            call = Call(call.method, call.target, call.headers, b"!" + call.body[1:])
        return await handed_on(call, headers)

    proxy._ask = ask  # type: ignore[method-assign]
    proxied.upload(large, "/file", verify=True)
    assert altered
    assert (root / "file").read_bytes() == CONTENT


def test_a_source_that_changes(client: Client, gateway: Gateway, root: Path, large: Path) -> None:
    def progress(_: str, done: int, __: int | None) -> None:
        if done == 3 * PART:
            os.utime(large, (1e9, 1e9))

    with pytest.raises(SourceChanged):
        client.upload(large, "/file", progress=progress)
    assert list(root.iterdir()) == []
    assert gateway.staged == []


@pytest.mark.parametrize("kind", ["bytes", "stream"])
def test_other_sources(
    proxied: Client, proxy: FaultProxy, gateway: Gateway, root: Path, large: Path, kind: str
) -> None:
    with open(large, "rb") as stream:
        stream.seek(5)
        source: Any = CONTENT[5:] if kind == "bytes" else stream
        proxy.on(is_part, Torn(1000))
        proxied.upload(source, "/file")
        assert (root / "file").read_bytes() == CONTENT[5:]
        proxy.on(is_part, AWAY, turns=3)
        stream.seek(5)
        with pytest.raises(Temporary):
            proxied.upload(source, "/other")
    assert methods(proxy)[-1] == "DELETE", "nobody can resume it"
    assert gateway.staged == []


def test_without_resuming_it_is_one_request(proxied: Client, proxy: FaultProxy, root: Path, large: Path) -> None:
    proxied.upload(large, "/file", resume=False)
    proxied.upload_all([(large, "/other")], resume=False)
    assert methods(proxy) == []
    assert (root / "file").read_bytes() == (root / "other").read_bytes() == CONTENT


def test_records_are_written_off_the_event_loop(
    gateway: Gateway, notes: Path, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are synced to the disk, which can take long."""
    threads: dict[str, set[int]] = {}

    def watch(name: str) -> None:
        method = getattr(upload_records._FileRecord, name)

        def watched(*arguments: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return method(*arguments)

        monkeypatch.setattr(upload_records._FileRecord, name, watched)

    for name in ("load", "save", "close"):
        watch(name)

    async def send() -> None:
        async with AsyncClient(gateway.url, username="web", password=gateway.password, resume_folder=notes) as client:
            await client.upload(large, "/file")

    asyncio.run(send())
    assert threads.keys() == {"load", "save", "close"}
    assert not any(threading.get_ident() in used for used in threads.values())
