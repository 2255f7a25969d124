"""The provider for an Azure file share, which has folders of its own."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import structlog

from portico.entries import UNKNOWN_TYPE, Download, Entry, Page
from portico.errors import (
    Changed,
    FolderNotEmpty,
    IsAFolder,
    NotAFolder,
    NotFound,
    PorticoError,
    RangeNotSatisfiable,
)
from portico.paths import RESERVED_PREFIX, Path, name_flaw
from portico.providers.answers import nonsense, size_of
from portico.providers.azure_common import Fault, Stream, credential_and_url, translated
from portico.providers.azure_files import names, removal, trees
from portico.providers.azure_files.content import Content
from portico.providers.azure_files.places import check_file_target, check_way, make_folders
from portico.providers.azure_files.share import MOST, Share, file_entry, is_absent
from portico.providers.azure_files.staging import RANGE, StagedFile
from portico.providers.base import TIMEOUT_SECONDS, Provider
from portico.providers.parts import UPLOADS, cut, send_all

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_HEADER_TEXT = re.compile(r"[\x20-\x7e]{1,256}")

log = structlog.get_logger()


class AzureFilesProvider(Provider):
    kind = "azure-files"
    max_page_size = MOST
    max_file_size = 4 * 2**40

    def __init__(
        self,
        share: str,
        account_url: str | None = None,
        connection_string: str | None = None,
        account_key: str | None = None,
        sas_token: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        access = credential_and_url(
            "file",
            account_url=account_url,
            connection_string=connection_string,
            account_key=account_key,
            sas_token=sas_token,
        )
        self._share = Share(access, share, timeout)
        self.identity = self._share.identity

    # Looking

    async def list_page(
        self, folder: Path, size: int, token: str | None, *, file_first: bool = False
    ) -> Page:
        with translated(folder.name, token):
            listing = await self._share.list(folder, size, token) if names.possible(folder) else None
            if listing is None:
                if await self._share.file(folder):
                    raise NotAFolder(f"'{folder.name}' is a file, not a folder.")
                raise _missing(folder)
        return Page([entry for entry in listing.entries if _shown(entry.name)], listing.token)

    async def stat(self, path: Path) -> Entry:
        with translated(path.name):
            found = await self._share.find(path)
        if found is None:
            raise _missing(path)
        return found.entry

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        if path.is_root:
            raise IsAFolder("The root is a folder.")
        if not names.possible(path):
            raise _missing(path)
        if stop is not None and stop <= start:  # which no request can say
            return await self._read_nothing(path, start, etag)
        with translated(path.name):
            try:
                stream = await self._share.read(path, start, stop)
            except Fault as fault:
                if fault.status == 416:
                    return await self._read_nothing(path, start, etag)
                if is_absent(fault) and await self._share.folder(path):
                    raise IsAFolder(f"'{path.name}' is a folder.") from fault
                if is_absent(fault):
                    raise _missing(path) from fault
                raise
            try:
                return _download(path, stream, start, etag)
            except BaseException:
                stream.close()
                raise

    async def _read_nothing(self, path: Path, start: int, etag: str | None) -> Download:
        """A range without bytes, which may be right at the end of the file."""
        entry = await self.stat(path)
        if entry.is_folder:
            raise IsAFolder(f"'{path.name}' is a folder.")
        _check_etag(entry, etag)
        assert entry.size is not None
        if start > entry.size:
            raise RangeNotSatisfiable(f"'{path.name}' has only {entry.size} bytes.", size=entry.size)
        return Download(entry, start, start, Content(path.name, None, 0))

    # Changing

    async def write(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str,
        *,
        replace: bool = True,
        at_most: int | None = None,
        otherwise: Iterator[Path] | None = None,
        way_checked: bool = False,
    ) -> Entry:
        with translated(path.name):
            await check_file_target(self._share, path, replace=replace, way_checked=way_checked)
        kept_type = content_type if _HEADER_TEXT.fullmatch(content_type) else UNKNOWN_TYPE
        staged = StagedFile(self._share, kept_type, at_most)
        async with (
            UPLOADS.lease() as lease,
            aclosing(cut(chunks, lambda _: RANGE, lease, at_most=at_most)) as parts,
        ):
            try:
                first = await anext(parts)
                await staged.begin(first)
                await send_all(first, parts, staged.send, lease)
                return await staged.commit(path, replace=replace)
            except BaseException:
                await asyncio.shield(staged.discard())
                raise

    async def check_way(self, folder: Path) -> None:
        names.check(folder)
        with translated(folder.name):
            await check_way(self._share, folder)

    async def make_folder(self, path: Path) -> None:
        names.check(path)
        with translated(path.name):
            await make_folders(self._share, path)

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        if not names.possible(path):
            raise _missing(path)
        with translated(path.name):
            if await self._share.delete_file(path):
                return
            try:
                there = await self._share.delete_folder(path)
            except Fault as fault:
                if fault.code != "DirectoryNotEmpty":
                    raise
                if not recursive:
                    raise FolderNotEmpty(
                        f"'{path.name}' is not empty; add recursive=true to remove it with its content."
                    ) from fault
                await removal.remove(self._share, path)
                return
            if not there:
                raise _missing(path)

    async def copy(self, source: Path, target: Path, *, replace: bool = True) -> None:
        with translated(source.name):
            await trees.copy(self._share, source, target, replace=replace)

    async def move(self, source: Path, target: Path, *, replace: bool = True) -> None:
        with translated(source.name):
            await trees.move(self._share, source, target, replace=replace)

    # Housekeeping

    async def sweep(self) -> int:
        with translated("staging"):
            return await removal.sweep(self._share)

    async def close(self) -> None:
        await self._share.close()


def _download(path: Path, stream: Stream, start: int, etag: str | None) -> Download:
    length = size_of(stream.headers.get("Content-Length"))
    said = _RANGE.fullmatch(stream.headers.get("Content-Range", ""))
    if start and (said is None or int(said[1]) != start):
        raise nonsense("another range of a file than it was asked for")
    entry = file_entry(path.name, stream.headers, size_of(said[3]) if said else length)
    _check_etag(entry, etag)
    return Download(entry, start, start + length, Content(path.name, stream, length))


def _check_etag(entry: Entry, etag: str | None) -> None:
    # The service knows no If-Match for files: its answer tells the version, before any byte of it is used.
    if etag is not None and etag != entry.etag:
        raise Changed(f"'{entry.name}' has changed meanwhile; start the download again.")


def _shown(name: str) -> bool:
    if names.shown(name):
        return True
    flaw = name_flaw(name)
    if flaw and not name.startswith(RESERVED_PREFIX):
        log.warning("left-out-of-listing", name=ascii(name), why=f"the name {flaw}")
    return False


def _missing(path: Path) -> PorticoError:
    return NotFound(f"There is no '{path.name}'.")
