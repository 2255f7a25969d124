"""Which requests are retried after a failure, and which are not."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from portico.client import (
    AlreadyExists,
    Client,
    ConnectionFailed,
    NotFound,
    ProviderUnavailable,
    TransfersFailed,
    Unavailable,
)
from portico.client.auth.backoff import Backoff
from portico.client.http.effects import Sleep

from ..gateways import Gateway
from ..servers.proxy import Altered, Call, Cut, Fault, FaultProxy, Lost, Reply, Reset
from .conftest import MakeClient, both_clients
from .faults import AWAY, BUSY, anything, is_upload
from .test_uploads import LARGE, Pipe


@both_clients
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


def test_the_gateway_may_ask_for_a_delay(proxied: Client, proxy: FaultProxy) -> None:
    busy = Unavailable("Busy.", retry_after=7)
    (sleep,) = Backoff(3, lambda: True).wait(busy)
    assert isinstance(sleep, Sleep)
    assert sleep.seconds == 7
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


@both_clients
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


def test_of_a_batch_only_the_rest_is_repeated(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    body = b'{"code":"provider-unavailable","stored":["0","1"],"failed":["2"]}'
    proxy.on(is_upload, Reply(503, {}, body))
    bodies = watched(proxy)
    proxied.upload_all((b"x", f"/{number}") for number in range(5))
    assert {path.name for path in root.iterdir()} == {"2", "3", "4"}  # the proxy lied about the others
    assert [body.count(b"filename") for body in bodies] == [3]  # the first five never got further than the proxy


def watched(proxy: FaultProxy) -> list[bytes]:
    """The bodies of uploads, in order."""
    bodies: list[bytes] = []
    handed_on = proxy._ask

    async def ask(call: Call, headers: Any) -> Reply:
        if is_upload(call):
            bodies.append(call.body)
        return await handed_on(call, headers)

    proxy._ask = ask  # type: ignore[method-assign]
    return bodies


def test_what_was_changed_since_is_read_again(proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path) -> None:
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


def test_a_lost_answer_to_one_who_may_not_replace(make: MakeClient, gateway: Gateway, proxy: FaultProxy) -> None:
    if "keeper" not in gateway.command("user", "list"):
        gateway.command("user", "add", "keeper", "--rights", "list,upload", "--password-stdin", stdin="keeper-password")
    client = make(f"http://127.0.0.1:{proxy.port}", username="keeper", password="keeper-password")
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
