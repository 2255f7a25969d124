"""A wrong address fails at once; a gateway that has responded before is retried."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from portico.client import Client, ClientError, ConnectionFailed, Unreachable

from ..gateways import Gateway, free_port, wait_until
from ..servers.proxy import FaultProxy, Reply
from .conftest import MakeClient, both_clients

Act = Callable[[Client], object]
ACTS: list[Act] = [
    lambda client: client.login(),
    lambda client: client.stat("/"),
    lambda client: client.upload(b"x", "/x"),
    lambda client: client.upload(b"x", "/x", on_conflict="fail"),
    lambda client: client.read("/x"),
    lambda client: client.delete("/x"),
    lambda client: client.move("/x", "/y", on_conflict="fail"),
]


class Attempts:
    """Counts connections as they are tried, by either client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.error: OSError | None = None
        connect, open_connection = socket.create_connection, asyncio.open_connection

        def counted(*arguments: Any, **options: Any) -> Any:
            self.tried()
            return connect(*arguments, **options)

        async def counted_too(*arguments: Any, **options: Any) -> Any:
            self.tried()
            return await open_connection(*arguments, **options)

        monkeypatch.setattr("portico.client.http.sync_pool.socket.create_connection", counted)
        monkeypatch.setattr("portico.client.http.async_pool.asyncio.open_connection", counted_too)

    def tried(self) -> None:
        self.count += 1
        if self.error:
            raise self.error


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Attempts:
    return Attempts(monkeypatch)


@both_clients
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("signed_in", [True, False])
def test_a_wrong_port_is_tried_once(make: MakeClient, attempts: Attempts, act: Act, signed_in: bool) -> None:
    tokens = make().login() if signed_in else None
    attempts.count = 0
    with pytest.raises(ConnectionFailed, match="refused") as failed:
        act(make(f"http://127.0.0.1:{free_port()}", tokens=tokens))
    assert attempts.count == 1
    assert failed.value.opening


@both_clients
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), Unreachable),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), ConnectionFailed),
        (OSError(113, "No route to host"), ConnectionFailed),
        (TimeoutError(), ConnectionFailed),
    ],
)
def test_a_host_that_cannot_be_reached_is_tried_once(
    make: MakeClient, attempts: Attempts, error: OSError, kind: type[ClientError]
) -> None:
    attempts.error = error
    with pytest.raises(kind):
        make("http://files.example.com").stat("/")
    assert attempts.count == 1


@pytest.fixture
def hanging_up() -> Iterator[tuple[int, list[int]]]:
    """A server that closes every connection: its port, and the connections so far."""
    listener = socket.create_server(("127.0.0.1", 0))
    came: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, (_, port) = listener.accept()
            except OSError:
                return
            came.append(port)
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], came
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@both_clients
def test_a_handshake_that_fails_is_tried_once(make: MakeClient, hanging_up: tuple[int, list[int]]) -> None:
    port, came = hanging_up
    with pytest.raises(ClientError):
        make(f"https://127.0.0.1:{port}").stat("/")
    assert len(came) == 1


@both_clients
def test_a_restart_of_the_gateway_is_survived(make: MakeClient, attempts: Attempts, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home")
    gateway.start()
    try:
        client = make(gateway.url, password=gateway.password, attempts=12)
        client.stat("/")
        gateway.stop()
        attempts.count = 0
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(client.stat("/").is_folder))
        thread.start()
        wait_until(lambda: attempts.count > 1, "it is tried again")
        gateway.start()
        thread.join(60)
        assert found == [True]
    finally:
        gateway.stop()


def test_a_sign_in_that_fails_is_not_tried_anew_for_its_request(make: MakeClient, proxy: FaultProxy) -> None:
    proxy.on(lambda call: True, Reply(503, {}, b'{"code":"unavailable"}'), turns=99)
    with pytest.raises(ClientError):
        make(f"http://127.0.0.1:{proxy.port}", attempts=3).stat("/")
    assert len(proxy.calls) == 3
