"""Open files: reads of one version, and writes that are stored on close."""

import errno
import io
import warnings
from collections.abc import Callable
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, cast

from fsspec.caching import register_cache
from fsspec.spec import AbstractBufferedFile

from portico.client import OnConflict
from portico.filesystem.block_cache import BLOCK, BlockCache
from portico.filesystem.errors import translate_errors

_IN_MEMORY = 8 * 1024 * 1024
"""Written data beyond this size is buffered on disk until it is sent."""

register_cache(BlockCache, clobber=True)


class ReadFile(AbstractBufferedFile):
    """The version of a file at the time it was opened; if it changes, reads fail instead of mixing versions."""

    DEFAULT_BLOCK_SIZE = BLOCK

    def __init__(
        self,
        fs: Any,
        path: str,
        *,
        block_size: int | None = None,
        cache_type: str = BlockCache.name,
        cache_options: dict[str, Any] | None = None,
        size: int | None = None,
        etag: str | None = None,
    ) -> None:
        if size is None or etag is None:
            with translate_errors(path):
                entry = fs.client.head(path)
            size, etag = entry.size, entry.etag
        self._etag = etag
        options = {"cache_type": cache_type, "cache_options": cache_options, "size": size}
        super().__init__(fs, path, "rb", block_size, **options, etag=etag)  # needed for unpickling

    def _fetch_range(self, start: int, stop: int) -> bytes:
        with translate_errors(self.path):
            content: bytes = self.fs.client.read(self.path, start, stop, etag=self._etag)
        if len(content) != stop - start:
            raise OSError(errno.ESTALE, "The file was truncated after it was opened.", self.path)
        return content


class _StoredOnClose:
    """Discards the file if the `with` block raises."""

    close: Callable[[], None]
    discard: Callable[[], None]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class WriteFile(_StoredOnClose, AbstractBufferedFile):
    """A file that is buffered locally and uploaded on close.

    Nothing is stored if the `with` block raises, or if the file is never closed.
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
        """Upload the file, unless it was discarded; raises `FileExistsError` if it must not replace an existing one."""
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

    def __del__(self) -> None:  # that of the base class would close the file, and so store it
        if not self.closed:
            warnings.warn(f"{self.path} was not closed, so it was not stored", ResourceWarning, stacklevel=2)
            self.discard()


class Compressed(_StoredOnClose, io.BufferedIOBase):
    """A compressor that also closes the underlying file, which those of the standard library leave open."""

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

    def __del__(self) -> None:  # that of the base class would close the file, and so store it
        self.discard()


class Text(_StoredOnClose, io.TextIOWrapper):
    """A text wrapper that discards the underlying file on errors."""

    def discard(self) -> None:
        self.buffer.discard()  # type: ignore[attr-defined]
