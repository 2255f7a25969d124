"""A file's bytes on their way out."""

from portico.errors import ProviderFailed
from portico.providers.azure_common import Stream, translated


class Content:
    """The chunks of a download. It holds a connection until its end or `aclose`, read or not."""

    def __init__(self, name: str, stream: Stream | None, size: int) -> None:
        self._name = name
        self._stream = stream
        self._left = size

    def __aiter__(self) -> "Content":
        return self

    async def __anext__(self) -> bytes:
        if self._stream is None or not self._left:
            await self.aclose()
            raise StopAsyncIteration
        try:
            with translated(self._name):
                chunk = await self._stream.piece()
            if not chunk or len(chunk) > self._left:
                raise ProviderFailed(
                    f"'{self._name}' ended at another byte than the storage had said.",
                    cause=f"{self._left} bytes were missing at the end of a download",
                )
        except BaseException:
            await self.aclose()
            raise
        self._left -= len(chunk)
        return chunk

    async def aclose(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
