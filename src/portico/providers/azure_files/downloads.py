"""Downloads: reading a file, or a range of it."""

import re

from portico.model.entries import Download, Entry
from portico.model.errors import ProviderFailed, beyond_end, changed, is_a_folder, not_found, root_is_a_folder
from portico.model.paths import Path
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Stream
from portico.providers.azure_files import names
from portico.providers.azure_files.errors import is_absent
from portico.providers.azure_files.service import Share, file_entry
from portico.providers.wire.responses import malformed_response, size_of

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


async def open_file(share: Share, path: Path, start: int, stop: int | None, etag: str | None) -> Download:
    """As `Provider.read`."""
    if path.is_root:
        raise root_is_a_folder()
    if not names.possible(path):
        raise not_found(path.name)
    with translated(path.name):
        if stop is not None and stop <= start:
            return await _open_empty(share, path, start, etag)
        try:
            stream = await share.read(path, start, stop)
        except ServiceError as error:
            if error.status == 416:
                return await _open_empty(share, path, start, etag)
            if not is_absent(error):
                raise
            raise (is_a_folder if await share.folder(path) else not_found)(path.name) from error
        try:
            return _download(path, stream, start, etag)
        except BaseException:
            stream.close()
            raise


async def _open_empty(share: Share, path: Path, start: int, etag: str | None) -> Download:
    """An empty range, which the service has no request for, or `RangeNotSatisfiable`."""
    found = await share.find(path)
    if found is None:
        raise not_found(path.name)
    entry = found.entry
    if entry.is_folder:
        raise is_a_folder(path.name)
    _check_etag(entry, etag)
    assert entry.size is not None
    if start > entry.size:
        raise beyond_end(path.name, entry.size)
    return Download(entry, start, start, FileContent(path.name, None, 0))


def _download(path: Path, stream: Stream, start: int, etag: str | None) -> Download:
    length = size_of(stream.headers.get("Content-Length"))
    sent = _CONTENT_RANGE.fullmatch(stream.headers.get("Content-Range", ""))
    if start and (sent is None or int(sent[1]) != start):
        raise malformed_response("another range of a file than was requested")
    entry = file_entry(path.name, stream.headers, size_of(sent[3]) if sent else length)
    _check_etag(entry, etag)
    return Download(entry, start, start + length, FileContent(path.name, stream, length))


def _check_etag(entry: Entry, etag: str | None) -> None:
    # The service has no If-Match for files; the response names the version before any byte of it is used.
    if etag is not None and etag != entry.etag:
        raise changed(entry.name)


class FileContent:
    """The chunks of a download. It holds a connection until the end or `aclose`, whether it is read or not."""

    def __init__(self, name: str, stream: Stream | None, size: int) -> None:
        self._name = name
        self._stream = stream
        self._left = size

    def __aiter__(self) -> "FileContent":
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
                    f"'{self._name}' has a different length than the storage declared. Try again.",
                    cause=f"{self._left} bytes of a download are missing or too many",
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
