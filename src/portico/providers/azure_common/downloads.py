"""The content of a download from either service, all of one version, even if the connection breaks."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from azure.core.exceptions import AzureError, IncompleteReadError, ServiceResponseTimeoutError

from portico.providers.azure_common.errors import translated
from portico.providers.azure_common.service import Stream
from portico.providers.wire.ranges import Content

_ATTEMPTS = 4


class StreamedContent(Content):
    def __init__(
        self, name: str, stream: Stream, start: int, stop: int, reopen: Callable[[int], Awaitable[Stream]] | None = None
    ) -> None:
        """`reopen`: opens the same version of the file at another position, if the service can do that."""
        super().__init__(start, stop)
        self._name = name
        self._stream: Stream | None = stream
        self._reopen = reopen

    async def _chunk(self) -> bytes:
        with translated(self._name):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return await self._piece()
                except AzureError as error:
                    self._close()
                    if attempt == _ATTEMPTS or isinstance(error, ServiceResponseTimeoutError) or not self._reopen:
                        raise
                    await asyncio.sleep(random.uniform(0.25, 0.5) * attempt)  # noqa: S311  (no secret)
        raise AssertionError

    async def _piece(self) -> bytes:
        if self._stream is None:
            assert self._reopen
            self._stream = await self._reopen(self._position)
        chunk = await self._stream.piece()
        if not chunk or len(chunk) > self._stop - self._position:
            raise IncompleteReadError("the content has another length than announced")
        return chunk

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
