"""One gateway for all tests. They run with `Client`, and with `AsyncClient` too where the transport matters.

Operations are shared: what they do with a response needs one client. Pools and runners exist twice.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from portico.client import AsyncClient, Client

from ..gateways import WAIT, Gateway
from ..servers.proxy import FaultProxy

MakeClient = Callable[..., Client]

both_clients = pytest.mark.parametrize("client_kind", ["sync", "async"], indirect=True)
"""Runs a test with each client."""


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Driven:
    """An `AsyncClient` with the interface of a `Client`, so that one test can use both."""

    def __init__(self, loop: Loop, *arguments: Any, **options: Any) -> None:
        self._loop = loop
        self._client = loop.run(self._made(*arguments, **options))

    async def _made(self, *arguments: Any, **options: Any) -> AsyncClient:
        return AsyncClient(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            if isinstance(result, AsyncIterator):
                return self._steps(result)
            return self._loop.run(result)

        return call

    def _steps(self, results: AsyncIterator[Any]) -> Iterator[Any]:
        end = object()

        async def step() -> Any:
            return await anext(results, end)

        while (result := self._loop.run(step())) is not end:
            yield result


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("client") / "home")
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture(scope="session")
def password(gateway: Gateway) -> str:
    return gateway.password


@pytest.fixture(scope="session")
def root(gateway: Gateway) -> Path:
    """The local folder behind the user's root."""
    return gateway.files / "web"


@pytest.fixture(autouse=True)
def emptied(gateway: Gateway) -> Iterator[None]:
    yield
    gateway.empty_root()


@pytest.fixture
def client_kind(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "sync"))


@pytest.fixture
def make(client_kind: str, gateway: Gateway, password: str) -> Iterator[MakeClient]:
    """Makes clients with the password, or other options."""
    made: list[Client] = []
    loop = Loop() if client_kind == "async" else None

    def begin(url: str = gateway.url, **options: Any) -> Client:
        options = {"username": "web", "password": password, **options}
        client = Client(url, **options) if loop is None else cast("Client", Driven(loop, url, **options))
        made.append(client)
        return client

    yield begin
    for client in made:
        client.close()
    if loop:
        loop.close()


@pytest.fixture
def client(make: MakeClient) -> Client:
    return make()


@contextmanager
def running_proxy(gateway: Gateway) -> Iterator[FaultProxy]:
    loop = Loop()
    proxy = FaultProxy(gateway.port)
    loop.run(proxy.__aenter__())
    yield proxy
    loop.run(proxy.__aexit__(None, None, None))
    loop.close()


@pytest.fixture
def proxy(gateway: Gateway) -> Iterator[FaultProxy]:
    """A proxy between a client and the gateway."""
    with running_proxy(gateway) as proxy:
        yield proxy


@pytest.fixture
def proxied(make: MakeClient, proxy: FaultProxy) -> Client:
    """A signed-in client behind the proxy."""
    client = make(f"http://127.0.0.1:{proxy.port}", attempts=3)
    client.login()
    proxy.calls.clear()
    return client
