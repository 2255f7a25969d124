"""Requests to one share, one method each.

They raise `ServiceError` or the SDK's errors, so call them inside `translated`. What is absent is None or False.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial

from azure.storage.fileshare.aio import ShareServiceClient

from portico.model import timestamps
from portico.model.entries import FOLDER_TYPE, UNKNOWN_TYPE, Entry
from portico.model.paths import Path
from portico.providers.azure_common.credentials import AzureAccess
from portico.providers.azure_common.errors import ServiceError
from portico.providers.azure_common.service import Body, Service, Stream, copied, copy_failed
from portico.providers.azure_files import names
from portico.providers.azure_files.errors import is_absent
from portico.providers.azure_files.listing import FolderListing, read_listing, stamp
from portico.providers.wire.ranges import range_header
from portico.providers.wire.responses import etag_of, malformed_response, size_of
from portico.providers.wire.transport import page_bytes
from portico.providers.wire.xml_listing import run_parser

_VERSION = "2024-11-04"
_DOTS = {"x-ms-allow-trailing-dot": "true", "x-ms-source-allow-trailing-dot": "true"}
_TARGET_DOTS = {"x-ms-allow-trailing-dot": "true"}
_FOLDER = {"restype": "directory"}
_MARK = "x-ms-meta-portico_upload"
"""The metadata by which an upload recognizes its file."""
MAX_PAGE_SIZE = 5000
_EARLIEST = datetime(1601, 1, 1, tzinfo=UTC)
"""The first time that the service can keep."""
_MAX_ENTRY_BYTES = 4096
"""Bytes of one entry in a listing: a name of 255 characters, each encoded as nine at most, and its properties."""


@dataclass(slots=True)
class Found:
    entry: Entry
    id: str
    """Stays the same when a file or folder is moved, and is never reused."""


class Share:
    def __init__(self, access: AzureAccess, name: str, timeout: float) -> None:
        # With a token, the service checks each file's own permissions unless this header is sent.
        by_token = not (access.key or access.sas)
        intent = {"x-ms-file-request-intent": "backup"} if by_token else {}
        client = partial(ShareServiceClient, token_intent="backup")  # noqa: S106  (no password)
        self._service = Service(access, client, _VERSION, {**_TARGET_DOTS, **intent}, timeout=timeout)
        self._name = name
        self.timeout = timeout
        self.identity = f"{access.url}/{name}".lower()

    async def close(self) -> None:
        await self._service.close()

    def _url(self, path: Path) -> str:
        return self._service.url(self._name, *path.segments)

    def _source(self, path: Path) -> str:
        return self._service.access.signed(self._url(path))

    # Reading

    async def list(self, folder: Path, size: int, token: str | None, prefix: str = "") -> FolderListing | None:
        query = {**_FOLDER, "comp": "list", "maxresults": str(size), "include": "Timestamps"}
        if token is not None:
            query["marker"] = token
        if prefix:
            query["prefix"] = prefix
        try:
            answer = await self._service.send(
                "GET",
                self._url(folder),
                query,
                {"x-ms-file-extended-info": "true"},
                at_most=page_bytes(size, _MAX_ENTRY_BYTES),
            )
        except ServiceError as error:
            if is_absent(error):
                return None
            raise
        return await run_parser(read_listing, answer.body, token, _date(answer.headers), size)

    async def find(self, path: Path) -> Found | None:
        if path.as_folder:
            return await self.folder(path) or await self.file(path)
        return await self.file(path) or await self.folder(path)

    async def file(self, path: Path) -> Found | None:
        if path.is_root or not names.possible(path):
            return None
        headers = await self._look("HEAD", path, {})
        return Found(file_entry(path.name, headers), _id(headers)) if headers else None

    async def has_mark(self, path: Path, mark: str, size: int) -> bool:
        """`mark`: that of `create`, or the id of the file."""
        headers = await self._look("HEAD", path, {}) if names.possible(path) else None
        return (
            headers is not None
            and mark in (headers.get(_MARK), _id(headers))
            and size_of(headers.get("Content-Length")) == size
        )

    async def folder(self, path: Path) -> Found | None:
        if not names.possible(path):
            return None
        headers = await self._look("GET", path, _FOLDER)
        if not headers:
            return None
        try:
            written = stamp(headers.get("x-ms-file-last-write-time"))
        except ValueError:
            raise malformed_response("a folder with an invalid time") from None
        return Found(Entry(path.name, True, last_modified=written, content_type=FOLDER_TYPE), _id(headers))

    async def _look(self, method: str, path: Path, query: Mapping[str, str]) -> Mapping[str, str] | None:
        try:
            return (await self._service.send(method, self._url(path), query)).headers
        except ServiceError as error:
            if is_absent(error):
                return None
            raise

    async def copied(self, path: Path) -> Found:
        """The file, once the copy to it has ended."""

        async def look() -> Mapping[str, str]:
            return (await self._service.send("HEAD", self._url(path))).headers

        headers = await copied(await look(), look)
        if (status := headers.get("x-ms-copy-status")) != "success":
            raise copy_failed(status)
        return Found(file_entry(path.name, headers), _id(headers))

    async def read(self, path: Path, start: int, stop: int | None) -> Stream:
        return await self._service.stream(self._url(path), headers=range_header(start, stop, "x-ms-range"))

    # Writing

    async def make_folder(self, path: Path) -> None:
        await self._service.send("PUT", self._url(path), _FOLDER)

    async def create(self, path: Path, size: int, content_type: str, mark: str | None = None) -> str:
        """Create a file of zeros. Returns its id."""
        headers = {"x-ms-type": "file", "x-ms-content-length": str(size), "x-ms-content-type": content_type}
        if mark is not None:
            headers[_MARK] = mark
        return _id((await self._service.send("PUT", self._url(path), headers=headers)).headers)

    async def resize(self, path: Path, size: int, content_type: str) -> None:
        # Properties that a request omits are cleared, so the type is sent each time.
        headers = {"x-ms-content-length": str(size), "x-ms-content-type": content_type}
        await self._service.send("PUT", self._url(path), {"comp": "properties"}, headers)

    async def put_range(self, path: Path, start: int, body: Body, md5: str) -> None:
        headers = {"x-ms-write": "update", "x-ms-range": f"bytes={start}-{start + body.size - 1}", "Content-MD5": md5}
        await self._service.send("PUT", self._url(path), {"comp": "range"}, headers, body)

    async def rename(
        self,
        source: Path,
        target: Path,
        *,
        is_folder: bool = False,
        replace: bool = False,
        modified: datetime | None = None,
    ) -> Mapping[str, str]:
        query = {**_FOLDER, "comp": "rename"} if is_folder else {"comp": "rename"}
        headers = {
            **_DOTS,
            "x-ms-file-rename-source": self._source(source),
            "x-ms-file-rename-replace-if-exists": "true" if replace else "false",
        }
        if modified is not None and modified >= _EARLIEST:  # otherwise the time stays as it is
            headers["x-ms-file-last-write-time"] = _written(modified)
        return (await self._service.send("PUT", self._url(target), query, headers)).headers

    async def start_copy(self, source: Path, target: Path) -> None:
        headers = {**_DOTS, "x-ms-copy-source": self._source(source)}
        try:
            await self._service.send("PUT", self._url(target), headers=headers)
        except ServiceError as error:
            if not (error.repeated and error.code == "PendingCopyOperation"):
                raise  # otherwise an earlier attempt, whose response was lost, began this copy

    async def delete_file(self, path: Path) -> bool:
        return await self._delete(path, {})

    async def delete_folder(self, path: Path) -> bool:
        return await self._delete(path, _FOLDER)

    async def _delete(self, path: Path, query: Mapping[str, str]) -> bool:
        """Whether it existed, also if an attempt whose response was lost removed it."""
        try:
            await self._service.send("DELETE", self._url(path), query)
        except ServiceError as error:
            if is_absent(error):
                return error.repeated and error.code == "ResourceNotFound"
            raise
        return True


def file_entry(name: str, headers: Mapping[str, str], size: int | None = None) -> Entry:
    try:
        written = timestamps.from_datetime(_date(headers, "Last-Modified"))
        modified = stamp(headers.get("x-ms-file-last-write-time")) or written
    except ValueError:
        raise malformed_response("a file with an invalid time") from None
    return Entry(
        name,
        False,
        size_of(headers.get("Content-Length")) if size is None else size,
        modified,
        headers.get("Content-Type") or UNKNOWN_TYPE,
        etag_of(headers.get("ETag")),
        written=written,
    )


def _written(moment: datetime) -> str:
    """A time with seven fractional digits, as the service wants it."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}0Z"


def _id(headers: Mapping[str, str]) -> str:
    return headers.get("x-ms-file-id", "")


def _date(headers: Mapping[str, str], name: str = "Date") -> datetime:
    if name not in headers:
        return datetime.now(UTC)
    try:
        return parsedate_to_datetime(headers[name]).astimezone(UTC)
    except (ValueError, OverflowError):
        raise malformed_response(f"an invalid {name}") from None
