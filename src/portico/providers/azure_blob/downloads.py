"""Downloads: reading a blob, or a range of it."""

from portico.model.entries import Download
from portico.model.errors import is_a_folder
from portico.providers.azure_blob.listing import entry_of
from portico.providers.azure_blob.service import Container
from portico.providers.azure_common.downloads import StreamedContent
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_common.service import Stream
from portico.providers.objects.service import name_of
from portico.providers.wire.ranges import empty_download
from portico.providers.wire.responses import size_of


async def open_blob(container: Container, key: str, start: int, stop: int | None, etag: str | None) -> Download:
    """As `ObjectService.open`."""
    name = name_of(key)
    with translated(name):
        if start == stop:
            return empty_download(name, await container.find(key), start, etag)
        try:
            stream = await container.read(key, start, stop, etag)
        except ServiceError as error:
            if error.status == 416:
                return empty_download(name, await container.find(key), start, etag)
            raise
    try:
        # Whichever range of it was requested.
        ranged = stream.headers.get("Content-Range", "").rpartition("/")[2]
        size = size_of(ranged or stream.headers.get("Content-Length", ""))
        entry = entry_of(key, stream.headers, size)
        if entry.is_folder:
            raise is_a_folder(name)
    except BaseException:
        stream.close()
        raise
    end = size if stop is None else min(stop, size)

    async def reopen(position: int) -> Stream:
        return await container.read(key, position, end, entry.etag)

    return Download(entry, start, end, StreamedContent(name, stream, start, end, reopen))
