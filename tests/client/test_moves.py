"""Moves and copies that fail after the gateway may have started, if it ignores idempotency keys."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from portico.client import (
    AlreadyExists,
    Client,
    ConnectionFailed,
    NotFound,
    OnConflict,
    ProviderUnavailable,
    Unavailable,
)

from ..servers.proxy import Altered, Call, FaultProxy, Lost, Reply, Reset

pytestmark = pytest.mark.usefixtures("old_gateway")

HALF = {"code": "provider-unavailable", "detail": "2 of 5 files were moved."}
CONFLICTS: list[OnConflict | None] = [None, "replace", "fail", "rename"]


def is_transfer(call: Call) -> bool:
    return call.query.get("action") in ("MOVE", "COPY")


def transfers(proxy: FaultProxy) -> int:
    return sum(map(is_transfer, proxy.calls))


def half_done(work: Callable[[], object]) -> Altered:
    """The gateway reports a failure; `work` leaves the files as they are then."""

    def change(reply: Reply) -> Reply:
        work()
        return Reply(503, {}, json.dumps(HALF).encode())

    return Altered(change)


@pytest.mark.parametrize("on_conflict", CONFLICTS)
def test_a_move_that_is_done_is_done_though_its_answer_was_lost(
    proxied: Client, proxy: FaultProxy, root: Path, on_conflict: OnConflict | None
) -> None:
    (root / "old").touch()
    proxy.on(is_transfer, Lost())
    proxied.move("/old", "/new", on_conflict=on_conflict)
    assert [path.name for path in root.iterdir()] == ["new"]
    assert transfers(proxy) == 1


@pytest.mark.parametrize("on_conflict", CONFLICTS)
@pytest.mark.parametrize("act", [Client.move, Client.copy])
def test_what_never_arrived_is_repeated(
    proxied: Client,
    proxy: FaultProxy,
    root: Path,
    act: Callable[..., None],
    on_conflict: OnConflict | None,
) -> None:
    (root / "old").touch()
    proxy.on(is_transfer, Reply(503, {}, b'{"code":"unavailable"}'), Reply(429))
    getattr(proxied, act.__name__)("/old", "/new", on_conflict=on_conflict)
    assert (root / "new").exists()
    assert transfers(proxy) == 3


@pytest.mark.parametrize("on_conflict", [None, "replace", "fail"])
@pytest.mark.parametrize("act", [Client.move, Client.copy])
def test_what_was_not_begun_is_repeated(
    proxied: Client,
    proxy: FaultProxy,
    root: Path,
    act: Callable[..., None],
    on_conflict: OnConflict | None,
) -> None:
    """The request was sent, so only a check can tell."""
    (root / "old").touch()
    proxy.on(is_transfer, Reset(), Reply(504))
    getattr(proxied, act.__name__)("/old", "/new", on_conflict=on_conflict)
    assert (root / "new").exists()
    assert transfers(proxy) == 3


@pytest.mark.parametrize("act", ["move", "copy"])
def test_half_a_transfer_is_not_taken_for_a_conflict(
    proxied: Client, proxy: FaultProxy, root: Path, act: str
) -> None:
    (root / "old").mkdir()
    for name in "abc":
        (root / "old" / name).write_text(name)

    def undo() -> None:
        """As if only a part of it had been done."""
        if act == "move":
            shutil.copytree(root / "new", root / "old")
        (root / "new" / "c").unlink()

    proxy.on(is_transfer, half_done(undo))
    with pytest.raises(ProviderUnavailable, match="2 of 5"):
        getattr(proxied, act)("/old", "/new", on_conflict="fail")
    assert transfers(proxy) == 1
    getattr(proxied, act)("/old", "/new", on_conflict="replace")  # that carries on
    assert sorted(path.name for path in (root / "new").iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("on_conflict", [None, "replace"])
@pytest.mark.parametrize("act", ["move", "copy"])
def test_half_a_transfer_that_may_replace_carries_on(
    proxied: Client, proxy: FaultProxy, root: Path, act: str, on_conflict: OnConflict | None
) -> None:
    (root / "old").mkdir()
    (root / "old" / "a").write_text("a")

    def undo() -> None:
        if act == "move":
            shutil.copytree(root / "new", root / "old")

    proxy.on(is_transfer, half_done(undo))
    getattr(proxied, act)("/old", "/new", on_conflict=on_conflict)
    assert transfers(proxy) == 2
    assert (root / "old").exists() == (act == "copy")


def test_a_move_that_the_gateway_ended_and_called_a_failure_is_done(
    proxied: Client, proxy: FaultProxy, root: Path
) -> None:
    (root / "old").touch()
    proxy.on(is_transfer, half_done(lambda: None))
    proxied.move("/old", "/new")
    assert transfers(proxy) == 1


@pytest.mark.parametrize("fault", [Lost(), Altered(lambda reply: Reply(502)), half_done(lambda: None)])
def test_a_copy_that_renames_makes_no_second_copy(
    proxied: Client, proxy: FaultProxy, root: Path, fault: Lost | Altered
) -> None:
    (root / "old").touch()
    (root / "new").touch()
    proxy.on(is_transfer, fault)
    with pytest.raises((ConnectionFailed, Unavailable, ProviderUnavailable)):
        proxied.copy("/old", "/new", on_conflict="rename")
    assert {path.name for path in root.iterdir()} == {"old", "new", "new (1)"}


def test_a_copy_that_may_not_replace_is_not_repeated_onto_itself(
    proxied: Client, proxy: FaultProxy, root: Path
) -> None:
    (root / "old").touch()
    proxy.on(is_transfer, Lost())
    with pytest.raises(ConnectionFailed) as failed:
        proxied.copy("/old", "/new", on_conflict="fail")
    assert failed.value.sent
    assert transfers(proxy) == 1


def test_what_is_in_the_way_from_the_beginning_is_said(proxied: Client, root: Path) -> None:
    (root / "old").touch()
    (root / "new").touch()
    with pytest.raises(AlreadyExists):
        proxied.move("/old", "/new", on_conflict="fail")
    with pytest.raises(NotFound):
        proxied.move("/none", "/newer")
