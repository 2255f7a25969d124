"""Open files: reads of one version of a file, and writes that appear when they are closed."""

import errno
import io
import warnings
from collections.abc import Callable
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, cast

from fsspec.caching import register_cache
from fsspec.spec import AbstractBufferedFile

from portico.client import OnConflict
from portico.filesystem.blocks import BLOCK, Blocks
from portico.filesystem.failures import translated

_IN_MEMORY = 8 * 1024 * 1024
"""A file that is written goes to disk beyond this size, until it is sent."""

register_cache(Blocks, clobber=True)


class ReadFile(AbstractBufferedFile):
    """A file at the gateway, as it was when it was opened: a newer one is an error, not a mixture of both."""

    DEFAULT_BLOCK_SIZE = BLOCK

    def __init__(
        self,
        fs: Any,
        path: str,
        *,
        block_size: int | None = None,
        cache_type: str = Blocks.name,
        cache_options: dict[str, Any] | None = None,
        size: int | None = None,
        etag: str | None = None,
    ) -> None:
        if size is None or etag is None:
            with translated(path):
                entry = fs.client.head(path)
            size, etag = entry.size, entry.etag
        self._etag = etag
        options = {"cache_type": cache_type, "cache_options": cache_options, "size": size}
        super().__init__(fs, path, "rb", block_size, **options, etag=etag)  # for the copy that a pickle makes

    def _fetch_range(self, start: int, stop: int) -> bytes:
        with translated(self.path):
            content: bytes = self.fs.client.read(self.path, start, stop, etag=self._etag)
        if len(content) != stop - start:
            raise OSError(errno.ESTALE, "The file became shorter since it was opened.", self.path)
        return content


class _StoredWhole:
    """A `with` block that ends by an error leaves nothing behind."""

    close: Callable[[], None]
    discard: Callable[[], None]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class WriteFile(_StoredWhole, AbstractBufferedFile):
    """A file on its way: kept here until it is closed, then sent and stored whole.

    Nothing is stored if the `with` block ends by an error, or if the file is never closed.
    """

    def __init__(
        self,
        fs: Any,
        path: str,
        mode: str,
        *,
        block_size: int | None = None,
        autocommit: bool = True,
        content_type: str | None = None,
    ) -> None:
        super().__init__(fs, path, mode, block_size, autocommit)
        self._content_type = content_type
        self._content = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115

    def _upload_chunk(self, final: bool = False) -> None:
        self._content.write(self.buffer.getbuffer())
        if final and self.autocommit:
            self.commit()

    def commit(self) -> None:
        """Send it; `FileExistsError` if it must not replace what is there. What was discarded stays so."""
        if self._content.closed:
            return
        on_conflict: OnConflict | None = "fail" if self.mode == "xb" else None
        try:
            self._content.seek(0)
            self.fs.store(self.path, cast("BinaryIO", self._content), on_conflict, self._content_type)
        finally:
            self._content.close()

    def discard(self) -> None:
        self._content.close()
        self.closed = True

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"{self.path} was not closed, so it is not stored", ResourceWarning, stacklevel=2)
            self.discard()


class Compressed(_StoredWhole, io.BufferedIOBase):
    """A compressor that closes the file below it, which those of the standard library leave open."""

    def __init__(self, outer: Any, inner: WriteFile) -> None:
        self._outer = outer
        self._inner = inner

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return int(self._outer.write(data))

    def close(self) -> None:
        if not self.closed:
            try:
                self._outer.close()
                self._inner.close()
            finally:
                self._inner.discard()
                super().close()

    def discard(self) -> None:
        if not self.closed:
            self._outer.close()
            self._inner.discard()
            super().close()

    def __del__(self) -> None:
        self.discard()


class Text(_StoredWhole, io.TextIOWrapper):
    """Text over one of the two above; an error discards it too."""

    def discard(self) -> None:
        self.buffer.discard()  # type: ignore[attr-defined]
