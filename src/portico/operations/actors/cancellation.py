"""Long changes are cancelled when their client hangs up or loses the right to them, and all when the gateway stops."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from portico.model.errors import InvalidRequest, PorticoError, Unavailable

T = TypeVar("T")


class ClientGone(InvalidRequest):
    """The client hung up, or the rest of its request cannot be read. It may still be listening."""

    def __init__(self) -> None:
        super().__init__("The request ended too early. Send it again in full.")


class ChangeAbandoned(ClientGone):
    """The client hung up while its change was under way."""


class CancellableWork:
    """Cancelling is safe by the contract of providers: what was done stays, and every file of it is whole."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def run(
        self, work: Coroutine[Any, Any, T], client_gone: Awaitable[object], lost: Awaitable[PorticoError]
    ) -> T:
        """The result of `work`; `ChangeAbandoned` if `client_gone` ends first, what `lost` returns if that does."""
        task = asyncio.create_task(work)
        gone, loss = asyncio.ensure_future(client_gone), asyncio.ensure_future(lost)
        self._running.add(task)
        if self._stopping:
            task.cancel()
        try:
            await asyncio.wait({task, gone, loss}, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()  # without effect if it is done
            await asyncio.wait({task})
            if not task.cancelled():
                return task.result()
            if self._stopping:
                raise Unavailable(
                    "The gateway is stopping, and the finished part is kept. Check it before you try again.",
                    retry_after=5,
                )
            if loss.done():
                raise loss.result()
            raise ChangeAbandoned
        finally:
            # The work must not outlive its request: the audit line and the provider's close come after it.
            for each in (task, gone, loss):
                each.cancel()
            await asyncio.wait({task, gone, loss})
            self._running.discard(task)

    def stop(self) -> None:
        self._stopping = True
        for task in self._running:
            task.cancel()
