"""Uploads of large files in parts, which another call or another run of the program can go on with."""

import os
import time
from dataclasses import replace

from portico.client import files
from portico.client.auth.session import AuthSession
from portico.client.errors import COMMON, ClientError
from portico.client.http.effects import Operation, blocking
from portico.client.transfers import part_size
from portico.client.transfers.multipart import UploadItem
from portico.client.transfers.part_size import PartSize
from portico.client.transfers.reported import reported
from portico.client.transfers.resumable_upload import ResumableUpload, Terms
from portico.client.transfers.sources import FileSource
from portico.client.transfers.tus import MAX_METADATA, InParts, NotSupported, metadata_of
from portico.client.transfers.upload_records import UploadRecord, UploadRecords

THRESHOLD = 16 * 1024 * 1024
"""Files of at least this size are sent in parts."""


class ResumableUploads:
    """The uploads in parts of one client."""

    def __init__(self, session: AuthSession, records: UploadRecords) -> None:
        self._session = session
        self._records = records
        self._supported = True
        """Whether the gateway is not known to lack them, as older ones do."""
        self._most = part_size.PART
        """The largest part that the proxies between here and the gateway let through, as far as is known."""
        self.unfinished: set[str] = set()
        """The paths of files that another call, or another run, can go on with."""

    def send(self, file: UploadItem, terms: Terms) -> Operation[UploadItem | None]:
        """Store a file; return it with its entry. None if it is to be sent in one request instead."""
        source, size = file.source, file.source.size
        if not self._supported or size is None or size < THRESHOLD or not isinstance(source, InParts):
            return None
        metadata = metadata_of(file, terms.on_conflict)
        if len(metadata) > MAX_METADATA:
            return None
        record: UploadRecord | None = None
        if isinstance(source, FileSource):
            key = (file.path, os.path.abspath(source.path), terms.on_conflict or "")
            record = yield from blocking(lambda: self._records.open(*key))
        part = PartSize(self._most, checked=terms.checked)
        upload = ResumableUpload(
            self._session, record, file, source, size, metadata, terms, part, self.unfinished
        )
        try:
            began = time.monotonic()
            response = yield from upload.send()
            sent = replace(file, sent=size, resumed=upload.resumed)
            (stored,) = reported([sent], response, time.monotonic() - began)
            self._most = min(self._most, part.most)
            yield from self._complete(stored)
            return stored
        except NotSupported as answer:
            self._supported = self._supported and not answer.for_good
            yield from upload.abandon()
            return None
        except ClientError as error:
            if record is None or not isinstance(error, COMMON):
                yield from upload.abandon()
            raise
        finally:
            if record:
                yield from blocking(record.close)

    def _complete(self, stored: UploadItem) -> Operation[None]:
        """Ask for the entry, if the response has only its path: it was one to HEAD, after another was lost."""
        entry = stored.entry
        if entry is None or entry.last_modified is not None:
            return
        try:
            found = yield from files.stat(self._session, entry.path)
            if found.size == entry.size:
                stored.entry = found
        except ClientError:  # such as of a user who may not list files
            pass
