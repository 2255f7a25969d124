"""Groups small files for uploads, so that they share requests."""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from portico.client.errors import ClientError, SourceChanged
from portico.client.paths import check_name, clean, join, split
from portico.client.transfers.multipart import UploadItem
from portico.client.transfers.sources import BytesSource, FileSource, Uploadable, source_of

SMALL = 1024 * 1024
"""Files up to this size share requests."""
BATCH_FILES = 32
"""Not more, so that a few hundred files keep all connections busy."""
BATCH_BYTES = 8 * 1024 * 1024
_OPEN_FOLDERS = 64
"""For how many folders a batch is open at the same time."""


def upload_item(source: Uploadable, path: str, content_type: str | None = None) -> UploadItem:
    """If the path ends with a slash, it is a folder in which the local file keeps its name."""
    if path.endswith("/") or not path:
        if not isinstance(source, str | os.PathLike):
            clean(path + "name")
            raise ValueError(f"{path!r} is a folder; add a file name")
        path = join(path, check_name(os.path.basename(os.path.abspath(source))))
    return UploadItem(clean(path), source_of(source), content_type)


def batches(
    items: Iterable[tuple[Uploadable, str]], failures: dict[str, Exception], *, shared: bool = True
) -> Iterator[list[UploadItem]]:
    """Batches of files for one folder each; unless `shared`, every file is alone. Unreadable files go to `failures`."""
    filling: dict[str, tuple[list[UploadItem], int]] = {}
    for source, path in items:
        try:
            file = upload_item(source, path)
        except (OSError, ClientError) as error:
            failures[path] = error
            continue
        size = file.source.size
        if not shared or size is None or size > SMALL:
            yield [file]
            continue
        folder = split(file.path)[0]
        batch, total = filling.pop(folder, ([], 0))
        if total + size > BATCH_BYTES or file.name in {other.name for other in batch}:
            yield batch
            batch, total = [], 0
        batch.append(file)
        if len(batch) == BATCH_FILES:
            yield batch
            continue
        filling[folder] = (batch, total + size)
        if len(filling) > _OPEN_FOLDERS:
            yield filling.pop(next(iter(filling)))[0]
    for batch, _ in filling.values():
        yield batch


def read_all(
    batch: list[UploadItem], failures: dict[str, Exception], *, hashed: Collection[UploadItem] | None = None
) -> list[UploadItem]:
    """Read a batch into memory, so that an unreadable file does not break a request with others in it.

    With `hashed`, only these are read, unless their size is unknown, and they have their SHA-256.
    """
    read = []
    for file in batch:
        try:
            if hashed is None:
                file = replace(file, source=file.source.read())
            elif file in hashed and file.source.size is not None:
                source = file.source.read()
                file = replace(file, source=source, sha256=source.sha256)
            read.append(file)
        except (OSError, SourceChanged) as error:
            failures[file.path] = error
    return read


def refresh(batch: list[UploadItem], failures: dict[str, Exception]) -> list[UploadItem]:
    """The batch for a retry: files that have changed are read anew."""
    refreshed = []
    for file in batch:
        source = file.source
        try:
            refreshed.append(
                replace(file, source=source.refreshed()) if isinstance(source, BytesSource | FileSource) else file
            )
        except (OSError, SourceChanged) as error:
            failures[file.path] = error
    return refreshed
