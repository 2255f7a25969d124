"""Moves and copies that fail before or after the gateway has started."""

from collections.abc import Callable
from pathlib import Path

import pytest

from portico.client import AlreadyExists, Client, NotFound, OnConflict, ProviderUnavailable

from ..servers.proxy import Call, FaultProxy, Reply, Reset

CONFLICTS: list[OnConflict | None] = [None, "replace", "fail", "rename"]


def is_transfer(call: Call) -> bool:
    return call.query.get("action") in ("MOVE", "COPY")


def transfers(proxy: FaultProxy) -> int:
    return sum(map(is_transfer, proxy.calls))


@pytest.mark.parametrize("on_conflict", CONFLICTS)
@pytest.mark.parametrize("act", [Client.move, Client.copy])
def test_what_never_arrived_is_repeated(
    proxied: Client, proxy: FaultProxy, root: Path, act: Callable[..., None], on_conflict: OnConflict | None
) -> None:
    (root / "old").touch()
    proxy.on(is_transfer, Reply(503, {}, b'{"code":"unavailable"}'), Reply(429))
    getattr(proxied, act.__name__)("/old", "/new", on_conflict=on_conflict)
    assert (root / "new").exists()
    assert transfers(proxy) == 3


@pytest.mark.parametrize("on_conflict", [None, "replace", "fail"])
@pytest.mark.parametrize("act", [Client.move, Client.copy])
def test_what_was_not_begun_is_repeated(
    proxied: Client, proxy: FaultProxy, root: Path, act: Callable[..., None], on_conflict: OnConflict | None
) -> None:
    """The request was sent, so only a check can tell."""
    (root / "old").touch()
    proxy.on(is_transfer, Reset(), Reply(504))
    getattr(proxied, act.__name__)("/old", "/new", on_conflict=on_conflict)
    assert (root / "new").exists()
    assert transfers(proxy) == 3


def test_what_is_in_the_way_from_the_beginning_is_said(proxied: Client, root: Path) -> None:
    (root / "old").touch()
    (root / "new").touch()
    with pytest.raises(AlreadyExists):
        proxied.move("/old", "/new", on_conflict="fail")
    with pytest.raises(NotFound):
        proxied.move("/none", "/newer")


@pytest.mark.parametrize("act", ["move", "copy"])
def test_half_a_transfer_is_not_taken_for_a_conflict(proxied: Client, proxy: FaultProxy, root: Path, act: str) -> None:
    (root / "old").touch()
    half = Reply(503, {}, b'{"code": "provider-unavailable", "detail": "2 of 5 files were moved."}')
    proxy.on(is_transfer, half, Reply(409, {}, b'{"code": "already-exists"}'))
    with pytest.raises(ProviderUnavailable, match="2 of 5"):
        getattr(proxied, act)("/old", "/new", on_conflict="fail")
    assert transfers(proxy) == 2
