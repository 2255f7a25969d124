"""Connections: silence, wrong servers, TLS, early responses, slow peers."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portico.client import ClientError, ConnectionFailed, NotAGateway, Unreachable
from portico.client.http import http11

from ..gateways import Gateway, free_port
from ..servers.proxy import FaultProxy, Silent
from .conftest import MakeClient, both_clients
from .faults import anything
from .test_uploads import LARGE


@both_clients
def test_silence_ends(make: MakeClient, proxy: FaultProxy) -> None:
    url = f"http://127.0.0.1:{proxy.port}"
    client = make(url, tokens=make(url).login(), timeout=0.5, attempts=1)
    proxy.on(anything, Silent())
    with pytest.raises(ConnectionFailed, match="didn't respond"):
        client.stat("/")


@both_clients
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


@both_clients
def test_nobody_there(make: MakeClient) -> None:
    with pytest.raises(ConnectionFailed):
        make(f"http://127.0.0.1:{free_port()}", attempts=1).stat("/")
    with pytest.raises(Unreachable, match="not found"):
        make("http://no-such-host.invalid").stat("/")


@pytest.fixture
def speaker() -> Iterator[Any]:
    """Serves one canned response to each connection."""
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


@both_clients
def test_other_servers(make: MakeClient, speaker: Any) -> None:
    tokens = make().login()
    url = speaker(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    with pytest.raises(NotAGateway):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 301 Moved\r\nLocation: https://there/\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(NotAGateway, match="https://there/"):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>")
    with pytest.raises(NotAGateway, match="not JSON"):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    with pytest.raises(NotAGateway, match="entry"):
        make(url, tokens=tokens).stat("/")
    speaker(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
    with pytest.raises(NotAGateway, match="page"):
        list(make(url, tokens=tokens).list("/"))
    speaker(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 403 No\r\nX: " + b"x" * 70_000)
    with pytest.raises(NotAGateway, match="headers are too large"):
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


@both_clients
def test_encrypted(make: MakeClient, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "gateway" / "home", tls=True)
    gateway.home.parent.mkdir()
    gateway.start()
    try:
        password = gateway.password
        with pytest.raises(Unreachable, match="certificate"):
            make(gateway.url, password=password).stat("/")
        with pytest.raises(Unreachable, match="can't be used"):
            make(gateway.url, password=password, ca=str(tmp_path / "none")).stat("/")
        client = make(gateway.url, password=password, ca=str(gateway.certificate))
        client.upload(LARGE, "/large")
        assert client.read("/large") == LARGE
        client.download("/large", tmp_path / "local")
        assert (tmp_path / "local").read_bytes() == LARGE
    finally:
        gateway.stop()


@both_clients
def test_http_where_https_is_meant_and_the_other_way_round(
    make: MakeClient, gateway: Gateway, speaker: Callable[[bytes], str]
) -> None:
    with pytest.raises(Unreachable, match=f"did you mean http://localhost:{gateway.port}/at\\?"):
        make(f"https://localhost:{gateway.port}/at").stat("/")
    url = speaker(b"\x15\x03\x01\x00\x02\x02\x46")
    with pytest.raises(Unreachable, match=url.replace("http", "did you mean https")):
        make(url).stat("/")


@both_clients
def test_an_answer_before_the_end_stops_the_body(make: MakeClient, gateway: Gateway, monkeypatch: Any) -> None:
    """A gateway that ignores 100-continue and refuses the request midway."""
    tokens = make().login()
    monkeypatch.setattr(http11, "_EXPECT_CONTINUE_FROM", 2**60)
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[int] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            taken.append(len(connection.recv(2**16)))
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 20\r\n\r\n" + b'{"code":"too-large"}')
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
    thread.join(60)
    assert not thread.is_alive()
    listener.close()


@both_clients
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
            while taken < 200_000:
                time.sleep(0.15)
                taken += len(connection.recv(20_000))
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    client = make(f"http://127.0.0.1:{listener.getsockname()[1]}", tokens=tokens, timeout=2.0, attempts=1)
    client.upload(b"x" * 200_000, "/file")
    thread.join(60)
    listener.close()
