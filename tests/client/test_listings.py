"""Listings as a stream of lines: what is made of them, and of one that breaks off."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portico.client import Client, ConnectionFailed, NotAGateway, NotFound, ProviderUnavailable

from ..gateways import Gateway
from ..servers.proxy import Altered, Call, Cut, FaultProxy, Reply
from .conftest import Loop, MakeClient, both_clients
from .faults import anything

FILES = [f"a/{number}" for number in range(5)] + ["a/b/deep", "z"]
ALL = {"/a", "/a/b", *(f"/{file}" for file in FILES)}


@pytest.fixture(autouse=True)
def tree(root: Path) -> None:
    for file in FILES:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)


def paths(client: Client, folder: str = "/", size: int = 2) -> list[str]:
    return [entry.path for entry in client.list(folder, size=size, recursive=True)]


@both_clients
def test_a_tree_comes_in_one_response(proxied: Client, proxy: FaultProxy) -> None:
    found = paths(proxied)
    assert (set(found), len(found), len(proxy.calls)) == (ALL, len(ALL), 1)
    for path in ALL - {"/a", "/z"}:
        assert found.index(path.rpartition("/")[0]) < found.index(path)
    assert len(list(proxied.list("/a", size=2))) == 6
    assert len(proxy.calls) == 2
    with pytest.raises(NotFound):
        paths(proxied, "/missing")


@both_clients
def test_the_connection_is_used_again(client: Client, client_kind: str) -> None:
    paths(client)
    (kept,) = (client if client_kind == "sync" else client._client)._pool._idle  # type: ignore[attr-defined]
    paths(client)
    assert (client if client_kind == "sync" else client._client)._pool._idle[0][1] is kept[1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("client_kind", ["sync"], indirect=True)
def test_a_listing_that_is_read_takes_no_connection_from_others(make: MakeClient) -> None:
    client = make(connections=1)
    for entry in client.list("/a", size=1):
        assert client.stat(entry.path) == replace(entry, etag=client.stat(entry.path).etag)


@both_clients
@pytest.mark.parametrize("fault", [Cut(900), Altered.body(lambda body: body[:900]), Altered.body(lambda body: b"")])
def test_a_listing_that_breaks_off_goes_on_behind_its_last_page(
    proxied: Client, proxy: FaultProxy, fault: Cut | Altered
) -> None:
    proxy.on(anything, fault, turns=2)
    found = paths(proxied)
    assert (set(found), len(found), len(proxy.calls)) == (ALL, len(ALL), 3)


def test_one_that_never_ends_is_an_error(proxied: Client, proxy: FaultProxy) -> None:
    proxy.on(anything, Altered.body(lambda body: body.replace(b'{"end":true}\n', b"")), turns=9)
    with pytest.raises(ConnectionFailed, match="ended early"):
        paths(proxied, size=1000)
    assert len(proxy.calls) == 3


def test_the_last_line_may_be_a_problem(proxied: Client, proxy: FaultProxy) -> None:
    def problem(code: str, status: int) -> bytes:
        return f'{{"type":"x","status":{status},"code":"{code}","detail":"It is away."}}\n'.encode()

    def broken_off_by(line: bytes) -> Altered:
        return Altered.body(lambda body: body[: body.rindex(b'{"nextCursor"')] + line)

    away = problem("provider-unavailable", 503)
    proxy.on(anything, broken_off_by(away))
    assert set(paths(proxied)) == ALL  # temporary: it goes on
    proxy.on(anything, broken_off_by(problem("not-found", 404)))
    with pytest.raises(NotFound, match="It is away"):
        paths(proxied)
    proxy.on(anything, Reply(200, {"Content-Type": "application/x-ndjson"}, away), turns=9)
    with pytest.raises(ProviderUnavailable):
        paths(proxied)


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"name": 3}', b'{"nextCursor": null}'])
def test_lines_that_make_no_sense(proxied: Client, proxy: FaultProxy, line: bytes) -> None:
    proxy.on(anything, Reply(200, {"Content-Type": "application/x-ndjson"}, line + b'\n{"end": true}\n'))
    with pytest.raises(NotAGateway):
        paths(proxied)


class OldGateway(FaultProxy):
    """Before a gateway that knows no lines."""

    async def _ask(self, call: Call, headers: list[tuple[str, str]]) -> Reply:
        call = replace(call, target=call.target.replace("recursive=true&", ""))
        return await super()._ask(call, [pair for pair in headers if pair[0] != "Accept"])


@pytest.fixture
def old_gateway(gateway: Gateway) -> Iterator[OldGateway]:
    loop = Loop()
    proxy = OldGateway(gateway.port)
    loop.run(proxy.__aenter__())
    yield proxy
    loop.run(proxy.__aexit__(None, None, None))
    loop.close()


@both_clients
def test_a_gateway_that_knows_no_lines(make: MakeClient, old_gateway: OldGateway) -> None:
    client = make(f"http://127.0.0.1:{old_gateway.port}")
    for size in (2, 1000):
        found = paths(client, size=size)
        assert (set(found), len(found)) == (ALL, len(ALL))
        assert len(list(client.list("/a", size=size))) == 6
