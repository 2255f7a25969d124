"""A cancellation ends an operation at any await, and is not swallowed."""

import asyncio
import os
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from portico.client import AsyncClient, ClientError

from ..gateways import Gateway
from ..servers.proxy import FaultProxy, Reply, Reset
from .test_uploads import LARGE

Act = Callable[[AsyncClient, Path], Coroutine[Any, Any, Any]]


def broken() -> Iterator[bytes]:
    """A body that fails while the client waits for the response."""
    yield b"begun"
    raise OSError("the disk is gone")


async def upload(client: AsyncClient, folder: Path) -> None:
    await client.upload(LARGE, "/large")


async def upload_all(client: AsyncClient, folder: Path) -> None:
    await client.upload_all((b"x" * number, f"/{number}") for number in range(3))


async def upload_broken(client: AsyncClient, folder: Path) -> None:
    with suppress(OSError):
        await client.upload(broken(), "/broken")


async def upload_many_broken(client: AsyncClient, folder: Path) -> None:
    with suppress(ClientError):
        await client.upload_all((broken(), f"/{number}") for number in range(3))


async def download(client: AsyncClient, folder: Path) -> None:
    await client.download("/file", folder / "local")


async def look(client: AsyncClient, folder: Path) -> None:
    async for _ in client.list("/"):
        pass


async def change(client: AsyncClient, folder: Path) -> None:
    name = uuid4().hex  # what an earlier one began may still be going on at the gateway
    await client.make_folder(f"/{name}")
    await client.copy(f"/{name}", f"/{name}-copy")
    await client.delete(f"/{name}")


class Cancelled:
    """Runs a coroutine and cancels its task when it awaits something for the `count`th time."""

    def __init__(self, work: Coroutine[Any, Any, Any], count: int) -> None:
        self._work = work
        self._count = count
        self.reached = False

    @types.coroutine
    def run(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        awaited = 0
        while True:
            try:
                waited_for = self._work.throw(error) if error else self._work.send(None)
            except StopIteration:
                return
            error = None
            awaited += 1
            if awaited == self._count:
                self.reached = True
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                yield waited_for
            except BaseException as raised:
                error = raised


@pytest.mark.parametrize("act", [upload, upload_all, upload_broken, upload_many_broken, download, look, change])
@pytest.mark.parametrize("fault", [None, Reset(), Reply(503, {}, b'{"code":"unavailable"}')])
def test_a_cancellation_at_any_await_is_heard(
    act: Act,
    fault: Reset | Reply | None,
    gateway: Gateway,
    password: str,
    proxy: FaultProxy,
    root: Path,
    tmp_path: Path,
) -> None:
    (root / "file").write_bytes(b"content")

    async def trial(count: int) -> bool:
        """Whether the operation came so far that it was cancelled."""
        proxy.forget()
        async with AsyncClient(f"http://127.0.0.1:{proxy.port}", tokens=tokens, attempts=2) as client:
            if fault:
                proxy.on(lambda call: True, fault)
            cancelled = Cancelled(act(client, tmp_path), count)

            async def work() -> None:
                await cancelled.run()

            task = asyncio.create_task(work())
            await asyncio.wait({task})
            if cancelled.reached:
                assert task.cancelled(), f"await {count} of {act.__name__} swallowed it: {task}"
            else:
                task.result()
            assert not [name for name in os.listdir(tmp_path) if name.endswith("part")], "half a file was left"
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}, "something was left running"
        return cancelled.reached

    async def every() -> None:
        count = 1
        while await trial(count):
            count += 1
        assert count > 1

    async def signed_in() -> Any:
        async with AsyncClient(gateway.url, username="web", password=password) as client:
            return await client.login()

    tokens = asyncio.run(signed_in())
    asyncio.run(every())


@pytest.mark.parametrize("moment", range(4))
def test_a_cancellation_that_meets_an_error_of_a_worker_is_heard(moment: int, gateway: Gateway, password: str) -> None:
    """The group of workers reports the error of one of them; the caller's cancellation comes first."""

    async def trial() -> None:
        async with AsyncClient(gateway.url, username="web", password=password) as client:
            await client.login()
            task = asyncio.current_task()
            assert task is not None
            loop = asyncio.get_running_loop()

            def failing() -> Iterator[tuple[bytes, str]]:
                for _ in range(moment):
                    yield b"x" * 2_000_000, "/large"
                loop.call_soon(task.cancel)
                raise OSError("the disk is gone")

            with pytest.raises(asyncio.CancelledError):
                await client.upload_all(failing())
            assert task.uncancel() == 0

    asyncio.run(trial())
