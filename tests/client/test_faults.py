"""What breaks on the way, what is repeated then, and what is not."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from portico.client import (
    AlreadyExists,
    Client,
    ClientError,
    ConnectionFailed,
    NotAGateway,
    NotFound,
    ProviderUnavailable,
    TransfersFailed,
    Unavailable,
    Unreachable,
    wire,
)

from ..gateways import Gateway, free_port
from ..servers.proxy import Altered, Call, Cut, Fault, FaultProxy, Lost, Reply, Reset, Silent
from .conftest import MakeClient
from .test_uploads import LARGE, Pipe

HUGE = LARGE * 8
"""More than the buffers between here and the proxy: what breaks off early was not all sent."""

BUSY = Reply(503, {"Retry-After": "1", "Content-Type": "application/problem+json"}, b'{"code":"unavailable"}')
AWAY = Reply(503, {}, b'{"code":"provider-unavailable","detail":"It is away."}')


def anything(call: Call) -> bool:
    return True


def is_upload(call: Call) -> bool:
    return call.method == "POST" and "action" not in call.target


@pytest.mark.parametrize("fault", [Reset(), Lost(), Cut(3), BUSY, AWAY, Reply(502)])
def test_looking_is_repeated(proxied: Client, proxy: FaultProxy, root: Path, fault: Fault) -> None:
    (root / "file").touch()
    proxy.on(anything, fault, fault)
    assert proxied.stat("/file").name == "file"
    assert len(proxy.calls) == 3
    proxy.on(anything, fault)
    proxied.make_folder("/folder")
    proxy.on(anything, fault)
    assert len(list(proxied.list())) == 2


def test_attempts_are_bounded(proxied: Client, proxy: FaultProxy) -> None:
    proxy.on(anything, AWAY, turns=9)
    with pytest.raises(ProviderUnavailable) as error:
        proxied.stat("/")
    assert len(proxy.calls) == 3
    assert (error.value.detail, error.value.retry_after) == ("It is away.", None)


def test_a_pause_that_is_asked_for_is_made(proxied: Client, proxy: FaultProxy) -> None:
    proxy.on(anything, BUSY)
    began = time.monotonic()
    proxied.stat("/")
    assert time.monotonic() - began >= 1
    proxy.on(anything, Reply(503, {"Retry-After": "3600"}))
    with pytest.raises(Unavailable):
        proxied.stat("/")


def test_what_is_not_temporary_is_not_repeated(proxied: Client, proxy: FaultProxy) -> None:
    with pytest.raises(NotFound):
        proxied.stat("/nothing")
    assert len(proxy.calls) == 1


def test_a_deletion_whose_answer_is_lost(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    (root / "file").touch()
    proxy.on(anything, Lost())
    proxied.delete("/file")
    assert not (root / "file").exists()
    with pytest.raises(NotFound):
        proxied.delete("/file")


def test_an_upload_whose_fate_a_proxy_does_not_know(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    """It was stored, and what answers in the gateway's place has not waited for it."""
    gone = Altered(lambda reply: Reply(504))
    proxy.on(is_upload, gone)
    with pytest.raises(Unavailable):
        proxied.upload(b"x", "/file", on_conflict="fail")
    proxy.on(is_upload, gone)
    with pytest.raises(Unavailable):
        proxied.upload(b"x", "/file", on_conflict="rename")
    assert {path.name for path in root.iterdir()} == {"file", "file (1)"}


def test_a_copy_whose_answer_is_lost(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    (root / "old").touch()
    proxy.on(anything, Lost())
    proxied.copy("/old", "/new")
    proxy.on(anything, Lost())
    with pytest.raises(ConnectionFailed):
        proxied.copy("/old", "/new", on_conflict="rename")
    assert {path.name for path in root.iterdir()} == {"old", "new", "new (1)"}


@pytest.mark.parametrize("fault", [Reset(), Reset(100_000), Lost(), BUSY, AWAY])
def test_an_upload_is_repeated(proxied: Client, proxy: FaultProxy, root: Path, fault: Fault) -> None:
    done: list[int] = []
    proxy.on(is_upload, fault, fault)
    proxied.upload(LARGE, "/file", progress=lambda _, count, __: done.append(count))
    assert (root / "file").read_bytes() == LARGE
    assert done[-1] == len(LARGE)
    assert sum(map(is_upload, proxy.calls)) == 3


def test_a_stream_that_comes_once_is_not_repeated(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    proxy.on(is_upload, Reset(100_000))
    with pytest.raises(ConnectionFailed):
        proxied.upload(Pipe(LARGE), "/file")
    assert list(root.iterdir()) == []


def test_an_upload_that_may_not_replace_is_looked_for(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    proxy.on(is_upload, Reset(100_000), AWAY)
    proxied.upload(HUGE, "/file", on_conflict="fail")
    assert (root / "file").read_bytes() == HUGE
    proxy.on(is_upload, Lost())
    with pytest.raises(ConnectionFailed):
        proxied.upload(HUGE, "/other", on_conflict="fail")
    assert (root / "other").read_bytes() == HUGE
    proxy.on(is_upload, Reset(100_000))
    with pytest.raises(AlreadyExists):
        proxied.upload(HUGE, "/other", on_conflict="fail")


def test_an_upload_that_renames_makes_no_second_file(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    proxy.on(is_upload, Reset(100_000), BUSY)
    proxied.upload(HUGE, "/file", on_conflict="rename")
    for fault in (Lost(), AWAY):
        proxy.on(is_upload, fault)
        with pytest.raises(ClientError):
            proxied.upload(HUGE, "/file", on_conflict="rename")
    assert {path.name for path in root.iterdir()} == {"file", "file (1)"}


def test_of_a_batch_only_the_rest_is_repeated(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    body = b'{"code":"provider-unavailable","stored":["0","1"],"failed":["2"]}'
    proxy.on(is_upload, Reply(503, {}, body))
    bodies = watched(proxy)
    proxied.upload_all((b"x", f"/{number}") for number in range(5))
    assert {path.name for path in root.iterdir()} == {"2", "3", "4"}  # the proxy lied about the others
    assert [body.count(b"filename") for body in bodies] == [
        3
    ]  # the first five never got further than the proxy


def watched(proxy: FaultProxy) -> list[bytes]:
    """The bodies of uploads, as they come."""
    bodies: list[bytes] = []
    handed_on = proxy._ask

    async def ask(call: Call, headers: Any) -> Reply:
        if is_upload(call):
            bodies.append(call.body)
        return await handed_on(call, headers)

    proxy._ask = ask  # type: ignore[method-assign]
    return bodies


def test_what_was_changed_since_is_read_again(
    proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path
) -> None:
    locals_ = [tmp_path / name for name in ("one", "two", "three")]
    for local in locals_:
        local.write_bytes(b"old")

    def meddle(reply: Reply) -> Reply:
        locals_[0].write_bytes(b"new")
        locals_[1].unlink()
        return AWAY

    proxy.on(is_upload, Altered(meddle))
    with pytest.raises(TransfersFailed) as failed:
        proxied.upload_all((local, "/") for local in locals_)
    assert {path: type(error) for path, error in failed.value.failures.items()} == {"/two": FileNotFoundError}
    assert [(root / name).read_bytes() for name in ("one", "three")] == [b"new", b"old"]


def test_a_lost_answer_to_one_who_may_not_replace(
    make: MakeClient, gateway: Gateway, proxy: FaultProxy
) -> None:
    if "keeper" not in gateway.command("user", "list"):
        gateway.command(
            "user", "add", "keeper", "--rights", "list,upload", "--password-stdin", stdin="keeper-password"
        )
    client = make(
        f"http://127.0.0.1:{proxy.port}", username="keeper", password="keeper-password", timeout=5.0
    )
    client.login()
    folder = f"/{uuid4().hex}"
    proxy.on(is_upload, Lost())
    client.upload(b"mine", f"{folder}/file")
    with pytest.raises(AlreadyExists):
        client.upload(b"mine", f"{folder}/file")
    proxy.on(is_upload, Lost())
    client.upload_all((b"x" * number, f"{folder}/{number}") for number in range(5))
    assert {entry.name: entry.size for entry in client.list(folder)} == {
        "file": 4,
        **{str(number): number for number in range(5)},
    }
    proxy.on(is_upload, Lost())
    with pytest.raises(AlreadyExists):
        client.upload(b"longer", f"{folder}/file")


def test_silence_ends(make: MakeClient, proxy: FaultProxy) -> None:
    client = make(f"http://127.0.0.1:{proxy.port}", timeout=0.5, attempts=1)
    client.login()
    proxy.on(anything, Silent())
    with pytest.raises(ConnectionFailed, match="silent"):
        client.stat("/")


def test_a_connection_that_was_given_up_meanwhile(
    make: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = Gateway(tmp_path / "gateway" / "home")
    gateway.home.parent.mkdir()
    gateway.start()
    client = make(gateway.url, password=gateway.password)
    client.upload(b"1", "/file")
    gateway.stop()
    gateway.start()
    try:
        client.move("/file", "/moved")
        assert client.read("/moved") == b"1"
    finally:
        gateway.stop()


def test_nobody_there(make: MakeClient) -> None:
    with pytest.raises(ConnectionFailed):
        make(f"http://127.0.0.1:{free_port()}", attempts=1).stat("/")
    with pytest.raises(Unreachable, match="no host"):
        make("http://no-such-host.invalid").stat("/")


@pytest.fixture
def speaker() -> Iterator[Any]:
    """Serves one canned answer to each who connects."""
    listener = socket.create_server(("127.0.0.1", 0))
    answers: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(2**16)
                connection.sendall(answers.pop(0))

    threading.Thread(target=serve, daemon=True).start()

    def speak(*words: bytes) -> str:
        answers.extend(words)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield speak
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_other_servers(make: MakeClient, speaker: Any) -> None:
    tokens = make().login()
    url = speaker(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    with pytest.raises(NotAGateway):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 301 Moved\r\nLocation: https://there/\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(NotAGateway, match="https://there/"):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>")
    with pytest.raises(NotAGateway, match="no JSON"):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    with pytest.raises(NotAGateway, match="entry"):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
    with pytest.raises(NotAGateway, match="page"):
        list(make(url, tokens=tokens).list("/"))
    speaker(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 403 No\r\nX: " + b"x" * 70_000)
    with pytest.raises(NotAGateway, match="more headers"):
        make(url, tokens=tokens).stat("/")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(make: MakeClient, speaker: Any, tmp_path: Path, status: int) -> None:
    tokens = make().login()
    (tmp_path / "file").write_bytes(b"content")
    operations: list[Callable[[Any], object]] = [
        lambda client: client.stat("/file"),
        lambda client: list(client.list("/")),
        lambda client: client.read("/file"),
        lambda client: client.upload(tmp_path / "file", "/"),
        lambda client: client.delete("/file"),
        lambda client: client.login("web", "password"),
    ]
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        answer = (
            f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{elsewhere.getsockname()[1]}/\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n"
        ).encode()
        for operation in operations:
            with pytest.raises(NotAGateway):
                operation(make(speaker(answer), tokens=tokens))
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


@pytest.fixture
def own_gateway(tmp_path: Path) -> Iterator[Gateway]:
    """One that may be left in the middle of something."""
    gateway = Gateway(tmp_path / "home")
    gateway.start()
    yield gateway
    gateway.kill()


def test_encrypted(make: MakeClient, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "gateway" / "home", tls=True)
    gateway.home.parent.mkdir()
    gateway.start()
    try:
        password = gateway.password
        with pytest.raises(Unreachable, match="certificate"):
            make(gateway.url, password=password).stat("/")
        with pytest.raises(Unreachable, match="cannot be used"):
            make(gateway.url, password=password, ca=str(tmp_path / "none")).stat("/")
        client = make(gateway.url, password=password, ca=str(gateway.certificate))
        client.upload(LARGE, "/large")
        assert client.read("/large") == LARGE
        client.download("/large", tmp_path / "local")
        assert (tmp_path / "local").read_bytes() == LARGE
    finally:
        gateway.stop()


def test_http_where_https_is_meant_and_the_other_way_round(
    make: MakeClient, gateway: Gateway, speaker: Callable[[bytes], str]
) -> None:
    with pytest.raises(Unreachable, match=f"did you mean http://localhost:{gateway.port}/at\\?"):
        make(f"https://localhost:{gateway.port}/at").stat("/")
    url = speaker(b"\x15\x03\x01\x00\x02\x02\x46")
    with pytest.raises(Unreachable, match=url.replace("http", "did you mean https")):
        make(url).stat("/")


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_ctrl_c_ends_a_transfer(own_gateway: Gateway, kind: str) -> None:
    url, password = own_gateway.url, own_gateway.password
    call = "client.upload_all(items(), progress=told)"
    script = f"""
import asyncio, os
from portico import Client, AsyncClient

def items():
    number = 0
    while True:
        number += 1
        yield b"x" * 2_000_000, f"/endless/{{number}}"

def told(path, done, total):
    if done == total:
        os.write(1, b"going\\n")  # in one go: several threads are here

async def main():
    async with AsyncClient({url!r}, username="web", password={password!r}) as client:
        await {call}

if {kind!r} == "AsyncClient":
    asyncio.run(main())
with Client({url!r}, username="web", password={password!r}) as client:
    {call}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0


def test_ctrl_c_leaves_no_part_behind(gateway: Gateway, password: str, root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(HUGE)
    script = f"""
import os, time
from portico import Client

def told(path, done, total):
    os.write(1, b"going\\n")
    time.sleep(0.5)

with Client({gateway.url!r}, username="web", password={password!r}) as client:
    client.download_all([("/file", {str(tmp_path)!r})], progress=told)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "going\n"
    assert [path.suffix for path in tmp_path.iterdir()] == [".portico-part"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert list(tmp_path.iterdir()) == []


def test_an_answer_before_the_end_stops_the_body(
    make: MakeClient, gateway: Gateway, monkeypatch: Any
) -> None:
    """A gateway that does not know 100-continue, and refuses in the middle."""
    tokens = make().login()
    monkeypatch.setattr(wire, "_EXPECTANT", 2**60)
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[int] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            taken.append(len(connection.recv(2**16)))
            connection.sendall(
                b"HTTP/1.1 413 Too Large\r\nContent-Length: 20\r\n\r\n" + b'{"code":"too-large"}'
            )
            connection.settimeout(20)
            while data := connection.recv(2**20):
                taken.append(len(data))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = make(f"http://127.0.0.1:{listener.getsockname()[1]}", tokens=tokens)

    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 100_000

    with pytest.raises(ClientError) as refused:
        client.upload(endless(), "/endless")
    assert refused.value.code == "too-large"
    thread.join(20)
    assert not thread.is_alive()
    listener.close()


def test_a_slow_line_that_moves_is_not_given_up(make: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = make().login()
    connect, open_connection = socket.create_connection, asyncio.open_connection

    def narrow(*arguments: Any) -> socket.socket:
        connection = connect(*arguments)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return connection

    async def narrow_streams(*arguments: Any, **options: Any) -> Any:
        reader, writer = await open_connection(*arguments, **options)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return reader, writer

    monkeypatch.setattr(socket, "create_connection", narrow)
    monkeypatch.setattr(asyncio, "open_connection", narrow_streams)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            taken = 0
            while taken < 400_000:
                time.sleep(0.1)
                taken += len(connection.recv(20_000))
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = make(f"http://127.0.0.1:{listener.getsockname()[1]}", tokens=tokens, timeout=1.0, attempts=1)
    client.upload(b"x" * 400_000, "/file")
    thread.join(20)
    listener.close()
