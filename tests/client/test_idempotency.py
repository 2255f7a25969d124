"""Lost answers, of a gateway that honours idempotency keys: what was sent is sent again, and done once."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from portico.client import AlreadyExists, Client, NotFound, OnConflict, RequestRunning, TransfersFailed, Unavailable
from portico.client.auth.backoff import Backoff
from portico.client.http.effects import Sleep
from portico.client.transfers import uploads

from ..gateways import Gateway
from ..servers.proxy import Altered, Call, Fault, FaultProxy, Lost, Reply, Reset
from .conftest import MakeClient, both_clients
from .faults import BUSY, HUGE, is_upload
from .test_uploads import LARGE

CONFLICTS: list[OnConflict | None] = [None, "replace", "fail", "rename"]
NO_ANSWER = [
    Lost(),
    Altered(lambda reply: Reply(504)),
    Altered(lambda reply: Reply(503, {}, b'{"code":"provider-unavailable"}')),
]


def is_change(call: Call) -> bool:
    return call.method != "GET"


def keys(proxy: FaultProxy) -> list[str]:
    return [call.headers["idempotency-key"] for call in proxy.calls if is_change(call)]


@both_clients
@pytest.mark.parametrize("on_conflict", CONFLICTS)
@pytest.mark.parametrize("fault", NO_ANSWER)
def test_an_upload_is_stored_once(
    proxied: Client, proxy: FaultProxy, root: Path, fault: Fault, on_conflict: OnConflict | None
) -> None:
    if on_conflict == "rename":
        (root / "file").touch()
    proxy.on(is_upload, fault, fault)
    entry = proxied.upload(LARGE, "/file", on_conflict=on_conflict)
    assert entry
    assert entry.path == ("/file (1)" if on_conflict == "rename" else "/file")
    assert (root / entry.name).read_bytes() == LARGE
    assert len(list(root.iterdir())) == 1 + (on_conflict == "rename")
    assert len(keys(proxy)) == 3
    assert len(set(keys(proxy))) == 1


@pytest.mark.parametrize("on_conflict", CONFLICTS)
@pytest.mark.parametrize("act", ["move", "copy"])
@pytest.mark.parametrize("fault", NO_ANSWER)
def test_a_transfer_is_done_once(
    proxied: Client, proxy: FaultProxy, root: Path, fault: Fault, act: str, on_conflict: OnConflict | None
) -> None:
    (root / "old").write_text("content")
    if on_conflict == "rename":
        (root / "new").touch()
    proxy.on(is_change, fault, fault)
    getattr(proxied, act)("/old", "/new", on_conflict=on_conflict)
    place = "new (1)" if on_conflict == "rename" else "new"
    assert (root / place).read_text() == "content"
    assert len(list(root.iterdir())) == 1 + (on_conflict == "rename") + (act == "copy")
    assert len(keys(proxy)) == 3
    assert len(set(keys(proxy))) == 1


def test_a_request_that_never_arrived_is_carried_out(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    (root / "old").touch()
    (root / "taken").touch()
    refused: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: proxied.copy("/old", "/taken", on_conflict="fail"), AlreadyExists),
        (lambda: proxied.move("/none", "/new", on_conflict="fail"), NotFound),
        (lambda: proxied.delete("/none"), NotFound),
        (lambda: proxied.upload(b"", "/taken", on_conflict="fail"), AlreadyExists),
    ]
    for act, error in refused:
        proxy.on(is_change, Reset())
        with pytest.raises(error):
            act()
    proxy.on(is_change, Reset())
    proxied.copy("/old", "/taken", on_conflict="rename")
    assert {path.name for path in root.iterdir()} == {"old", "taken", "taken (1)"}


def test_every_request_has_its_own_key(proxied: Client, proxy: FaultProxy) -> None:
    for _ in range(2):
        proxied.make_folder("/folder")
        proxied.upload(b"x", "/folder/file")
        proxied.copy("/folder/file", "/folder/copy")
        proxied.delete("/folder", recursive=True)
    assert len(set(keys(proxy))) == 8


def test_of_a_batch_the_rest_has_another_key(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    body = b'{"code":"provider-unavailable","stored":["0"],"failed":["1"]}'
    proxy.on(is_upload, Reply(503, {}, body))
    proxied.upload_all((b"x", f"/{number}") for number in range(3))
    assert len(set(keys(proxy))) == 2


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("on_conflict", [None, "rename"])
def test_a_file_that_changed_is_another_request(
    proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path, on_conflict: OnConflict | None, large: bool
) -> None:
    """Also if its size is the same."""
    size = len(LARGE) if large else 3
    local = tmp_path / "file"
    local.write_bytes(b"o" * size)

    def meddle(reply: Reply) -> Reply:
        local.unlink()
        local.write_bytes(b"n" * size)
        return Reply(504)

    proxy.on(is_upload, Altered(meddle))
    upload: Callable[[], object] = lambda: proxied.upload(local, "/", on_conflict=on_conflict)  # noqa: E731
    if on_conflict == "rename":  # two files would be stored
        with pytest.raises(Exception, match="504"):
            upload()
        assert (root / "file").read_bytes() == b"o" * size
    else:
        upload()
        assert (root / "file").read_bytes() == b"n" * size
        assert len(set(keys(proxy))) == 2


def test_a_file_that_changed_after_a_later_attempt(
    proxied: Client, proxy: FaultProxy, root: Path, tmp_path: Path
) -> None:
    local = tmp_path / "file"
    local.write_bytes(b"old")

    def meddle(reply: Reply) -> Reply:
        local.unlink()
        local.write_bytes(b"new")
        return BUSY

    proxy.on(is_upload, Altered(lambda reply: Reply(504)), Altered(meddle))
    with pytest.raises(Unavailable):
        proxied.upload(local, "/", on_conflict="rename")
    assert [path.read_bytes() for path in root.iterdir()] == [b"old"]


def test_one_file_of_a_batch_that_changed(
    make: MakeClient, gateway: Gateway, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The others are found stored, by a user who may not replace them."""
    if "holder" not in gateway.command("user", "list"):
        gateway.command("user", "add", "holder", "--rights", "list,upload", "--password-stdin", stdin="holder-password")
    client = make(f"http://127.0.0.1:{proxy.port}", username="holder", password="holder-password")
    client.login()
    locals_ = [tmp_path / name for name in ("one", "two")]
    for local in locals_:
        local.write_bytes(b"old")

    def meddle(reply: Reply) -> Reply:
        locals_[0].write_bytes(b"newer")
        return Reply(504)

    proxy.on(is_upload, Altered(meddle))
    folder = f"/{uuid4().hex}"
    with pytest.raises(TransfersFailed) as failed:
        client.upload_all((local, f"{folder}/") for local in locals_)
    assert list(failed.value.failures) == [f"{folder}/one"]


@both_clients
def test_an_attempt_that_still_runs_is_waited_for(proxied: Client, proxy: FaultProxy, root: Path) -> None:
    running = Reply(409, {"Retry-After": "0"}, b'{"code":"request-running"}')
    (root / "old").touch()
    proxy.on(is_change, Altered(lambda reply: Reply(504)), *[running] * 5)
    proxied.move("/old", "/new", on_conflict="rename")
    assert [path.name for path in root.iterdir()] == ["new"]
    assert len(set(keys(proxy))) == 1


def test_how_long_an_attempt_that_runs_is_waited_for() -> None:
    backoff = Backoff(1, lambda: True)
    for _ in range(2):
        (sleep,) = backoff.wait(RequestRunning("It runs.", retry_after=60))
        assert isinstance(sleep, Sleep)
        assert sleep.seconds == 60
    with pytest.raises(RequestRunning) as error:
        list(backoff.wait(RequestRunning("It runs.", retry_after=60)))
    assert error.value.final


@both_clients
def test_a_large_upload_that_is_replayed_is_not_sent(
    client: Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway answers before the body, which waits for its invitation."""
    key = {"Idempotency-Key": uuid4().hex}
    monkeypatch.setattr(uploads, "new_key", lambda: key)
    for _ in range(2):
        entry = client.upload(HUGE, "/file", on_conflict="rename", resume=False)
        assert entry
        assert entry.path == "/file"
    assert [path.name for path in root.iterdir()] == ["file"]
    assert client.stat("/file").size == len(HUGE)
