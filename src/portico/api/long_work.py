"""Changes that may take long: each ends with its client, and all of them when the gateway stops."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from portico.api.incoming import ChangeAbandoned, until_gone
from portico.errors import Unavailable

T = TypeVar("T")


class LongWork:
    """Cancelling is safe by the contract of providers: what was done stays, each file of it whole."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def run(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """What the work returns; `ChangeAbandoned` if the client has gone before."""
        task = asyncio.create_task(work)
        gone = asyncio.create_task(until_gone(request.receive))
        self._running.add(task)
        if self._stopping:
            task.cancel()
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()  # without effect if it is done
            await asyncio.wait({task})
            if not task.cancelled():
                return task.result()
            if self._stopping:
                raise Unavailable(
                    "The gateway is stopping; what was done so far is kept, so look before you ask again.",
                    retry_after=5,
                )
            raise ChangeAbandoned
        finally:
            # The work may not outlive its request: the audit line and the provider's end come after it.
            for one in (task, gone):
                one.cancel()
            await asyncio.wait({task, gone})
            self._running.discard(task)

    def stop(self) -> None:
        self._stopping = True
        for task in self._running:
            task.cancel()
