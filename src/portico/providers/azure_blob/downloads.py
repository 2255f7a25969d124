"""A blob's content on its way out, all of one version, even if the connection breaks on the way."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from azure.core.exceptions import AzureError, IncompleteReadError, ServiceResponseTimeoutError

from portico.providers.azure_common import Stream, translated

_ATTEMPTS = 4


class BlobChunks:
    """Holds a connection from the start; `aclose` gives it back, read or not."""

    def __init__(
        self,
        name: str,
        stream: Stream | None,
        start: int,
        stop: int,
        reopen: Callable[[int], Awaitable[Stream]],
    ) -> None:
        self._name = name
        self._stream = stream
        self._at = start
        self._stop = stop
        self._reopen = reopen
        """The same version of the blob, from another byte on."""

    def __aiter__(self) -> "BlobChunks":
        return self

    async def __anext__(self) -> bytes:
        if self._at >= self._stop:
            await self.aclose()
            raise StopAsyncIteration
        with translated(self._name):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return await self._piece()
                except AzureError as error:
                    await self.aclose()
                    if attempt == _ATTEMPTS or isinstance(error, ServiceResponseTimeoutError):
                        raise
                    await asyncio.sleep(random.uniform(0.25, 0.5) * attempt)  # noqa: S311  (no secret)
        raise AssertionError

    async def _piece(self) -> bytes:
        if self._stream is None:
            self._stream = await self._reopen(self._at)
        piece = await self._stream.piece()
        if not piece or len(piece) > self._stop - self._at:
            raise IncompleteReadError("the content has another length than was announced")
        self._at += len(piece)
        return piece

    async def aclose(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
