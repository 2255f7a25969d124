"""Changes that take long: they end with their client and at a stop, and say how the rest is done."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portico.api.requests import FILESYSTEM
from portico.model.errors import ProviderUnavailable
from portico.model.paths import Path
from portico.providers.local.provider import LocalProvider

from .conftest import OpenGateway
from .gateways import Gateway

METHODS = {
    "copy": ("POST", b"/tree?action=COPY&target=/new"),
    "move": ("POST", b"/tree?action=MOVE&target=/new"),
    "delete": ("DELETE", b"/tree?recursive=true"),
}
PROVIDED = {"copy": "copy", "move": "move", "delete": "move_to_trash"}
"""What the provider does for it."""


class Slow:
    """A provider's work that takes for ever."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.called_off = asyncio.Event()

    async def __call__(self, *_: Any, **__: Any) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.called_off.set()


@pytest.fixture(params=METHODS)
def slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(LocalProvider, PROVIDED[request.param], slow)
    slow.method, slow.target = METHODS[request.param]  # type: ignore[attr-defined]
    return slow


async def ask(gateway: Gateway, slow: Any, *steps: Any) -> Any:
    headers = list((await gateway.sign_in()).items())
    return await gateway.raw(slow.method, FILESYSTEM.encode() + slow.target, headers, steps)


async def test_work_ends_with_its_client(gateway: Gateway, slow: Slow) -> None:
    gateway.put("tree/file")
    async with asyncio.timeout(30):
        await ask(gateway, slow, slow.begun.wait, ConnectionError())
        await slow.called_off.wait()
    lines = (gateway.settings.home / "audit.log").read_text().splitlines()
    assert '"interrupted"' in lines[-1]


async def test_work_ends_at_a_stop(gateway: Gateway, slow: Slow) -> None:
    gateway.put("tree/file")

    async def stop() -> None:
        await slow.begun.wait()
        gateway.stop()

    async with asyncio.timeout(30):
        answer, _ = await asyncio.gather(ask(gateway, slow), stop())
    assert (answer.status, answer.json()["code"]) == (503, "unavailable")
    assert slow.called_off.is_set()


@pytest.mark.parametrize(
    ("user", "choice", "advice"),
    [
        ("web", None, "Repeat the request to continue."),
        ("web", "replace", "Repeat the request to continue."),
        ("web", "fail", "repeat the request with onConflict=replace and the target '/new'."),
        ("web", "rename", "repeat the request with onConflict=replace and the target '/new (1)'."),
        ("writer", None, "choose another target."),
    ],
)
async def test_what_is_said_of_half_a_copy_is_true(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, user: str, choice: str | None, advice: str
) -> None:
    gateway.put("tree/1")
    if choice == "rename":
        gateway.put("new/file")
    genuine: Callable[..., Awaitable[object]] = LocalProvider.copy

    async def half(self: LocalProvider, source: Path, target: Path, **options: Any) -> None:
        await genuine(self, source, target, **options)
        raise ProviderUnavailable("The service is gone.").after("1 files were copied")

    with monkeypatch.context() as patch:
        patch.setattr(LocalProvider, "copy", half)
        query = {"action": "COPY", "target": "/new", **({"onConflict": choice} if choice else {})}
        answer = await gateway.call("POST", "tree", user=user, params=query)
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("The service is gone. 1 files were copied before that.")
    assert answer.json()["detail"].endswith(advice)
    if user == "web":
        target = "/new (1)" if choice == "rename" else "/new"
        query = {"action": "COPY", "target": target, "onConflict": "replace"}
        again = await gateway.call("POST", "tree", params=query)
        assert again.status_code == 201


async def test_depth_is_bounded_by_the_setting(open_gateway: OpenGateway) -> None:
    gateway = await open_gateway(**{"path.max-depth": "3"})
    gateway.put("a/b/c/d/deep", b"deep")
    assert (await gateway.call("POST", "a/b/x", params={"action": "MKDIR"})).status_code == 201
    refused = [
        await gateway.call("POST", "a/b/c/x", params={"action": "MKDIR"}),
        await gateway.upload("a/b/c", {"x": b"x"}),
        await gateway.call("POST", "a/b/c/d/deep", params={"action": "COPY", "target": "/a/b/c/x"}),
        await gateway.call("POST", "a/b/c/d/deep", params={"action": "MOVE", "target": "/a/b/c/x"}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(400, "invalid-path")] * 4
    assert (await gateway.call("GET", "a/b/c/d/deep")).content == b"deep"
    assert (await gateway.call("DELETE", "a/b/c/d/deep")).status_code == 204


async def test_work_ends_before_its_request_does(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is cancelled itself waits for its work, so that nothing goes on behind its audit line."""
    gateway.put("tree/file")
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any, **__: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ended.set()

    monkeypatch.setattr(LocalProvider, "copy", slow)
    headers = await gateway.sign_in()
    request = asyncio.create_task(gateway.client.post(f"{FILESYSTEM}/tree?action=COPY&target=/new", headers=headers))
    await begun.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert ended.is_set()
