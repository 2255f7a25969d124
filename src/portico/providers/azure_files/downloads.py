"""Downloads: reading a file, or a range of it."""

from portico.model.entries import Download
from portico.model.errors import changed, is_a_folder, not_found, root_is_a_folder
from portico.model.paths import Path
from portico.providers.azure_common.downloads import StreamedContent
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Stream
from portico.providers.azure_files import names
from portico.providers.azure_files.errors import is_absent
from portico.providers.azure_files.service import Share, file_entry
from portico.providers.wire.ranges import empty_download, whole_size
from portico.providers.wire.responses import size_of


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
    found = await share.find(path)
    return empty_download(path.name, found.entry if found else None, start, etag)


def _download(path: Path, stream: Stream, start: int, etag: str | None) -> Download:
    length = size_of(stream.headers.get("Content-Length"))
    size = whole_size(stream.headers.get("Content-Range"), length, start)
    entry = file_entry(path.name, stream.headers, size)
    # The service has no If-Match for files; the response names the version before any byte of it is used.
    if etag is not None and etag != entry.etag:
        raise changed(path.name)
    stop = start + length
    return Download(entry, start, stop, StreamedContent(path.name, stream, start, stop))
