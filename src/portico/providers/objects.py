"""Folders on a store that has none: what S3, Azure Blob and Google Cloud Storage share.

A key is a path without its leading slash. A folder exists while a key lies below it, or as a zero-byte marker whose
key ends in a slash. A service says how its keys are listed, found, read, stored, copied and removed; what that means
for files and folders stands here, once.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import ClassVar

import structlog

from portico.entries import FOLDER_TYPE, Download, Entry, Page
from portico.errors import (
    AlreadyExists,
    FolderNotEmpty,
    InvalidPath,
    IsAFolder,
    NotAFolder,
    NotFound,
    PorticoError,
)
from portico.paths import RESERVED_PREFIX, Path, flawless_names, name_flaw
from portico.providers.base import Provider

_AT_ONCE = 8
"""Objects of a tree that are copied at the same time."""

log = structlog.get_logger()


@dataclass(slots=True)
class Listing:
    """A service's answer: objects and common prefixes, both by their whole keys, and the service's own token."""

    objects: list[Entry]
    """Their `name` is the whole key."""
    prefixes: list[str] = field(default_factory=list)
    token: str | None = None


class ObjectStore(Provider):
    max_key_bytes: ClassVar[int] = 1024

    # What a service has to say. Keys are whole; errors are ours.

    @abstractmethod
    async def list_keys(self, prefix: str, size: int, token: str | None, *, flat: bool = False) -> Listing:
        """One call: keys that begin with `prefix`; unless `flat`, those behind a further slash as prefixes."""

    @abstractmethod
    async def find(self, key: str) -> Entry | None:
        """The object, or None; a folder's entry where the service marks the folder by an object without the slash."""

    @abstractmethod
    async def open(self, key: str, start: int, stop: int | None, etag: str | None) -> Download:
        """As `Provider.read`."""

    @abstractmethod
    async def store(
        self, key: str, chunks: AsyncIterator[bytes], content_type: str, *, replace: bool, at_most: int | None
    ) -> Entry:
        """As `Provider.write`."""

    @abstractmethod
    async def duplicate(self, source: str, target: str, *, replace: bool) -> None:
        """Copy one object inside the service. `NotFound`, `AlreadyExists`."""

    @abstractmethod
    async def remove(self, keys: list[str]) -> None:
        """Remove objects, up to a page of them; one that is gone already is no error.

        A key that ends in a slash is a folder's marker, in whichever form the service has it.
        """

    # What that means for files and folders.

    async def list_page(self, folder: Path, size: int, token: str | None) -> Page:
        self._check_key(folder)
        prefix = folder_key(folder)
        listing = await self.list_keys(prefix, size, token)
        entries, marked = _entries(prefix, listing)
        if not (entries or marked or listing.token or folder.is_root):
            await self._check_folder(folder, known_empty=token is None)
        return Page(entries, listing.token)

    async def _check_folder(self, folder: Path, *, known_empty: bool) -> None:
        """`NotFound` or `NotAFolder` for a folder whose listing showed nothing."""
        if not known_empty and await self._holds_anything(folder):
            return
        entry = await self.find(key_of(folder))
        if entry is None:
            raise NotFound(f"There is no '{folder.name}'.")
        if not entry.is_folder:
            raise NotAFolder(f"'{folder.name}' is a file, not a folder.")

    async def stat(self, path: Path) -> Entry:
        if path.is_root:
            return _folder_entry(path)
        self._check_key(path)
        entry = await self.find(key_of(path))
        if entry:
            entry.name = path.name
            return entry
        if await self._holds_anything(path):
            return _folder_entry(path)
        raise NotFound(f"There is no '{path.name}'.")

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        if path.is_root:
            raise IsAFolder("The root is a folder.")
        self._check_key(path)
        try:
            download = await self.open(key_of(path), start, stop, etag)
        except NotFound:
            if await self._holds_anything(path):
                raise IsAFolder(f"'{path.name}' is a folder.") from None
            raise
        download.entry.name = path.name
        return download

    async def write(
        self,
        path: Path,
        chunks: AsyncIterator[bytes],
        content_type: str,
        *,
        replace: bool = True,
        at_most: int | None = None,
        otherwise: Iterator[Path] | None = None,
    ) -> Entry:
        self._check_key(path)
        await asyncio.gather(self._check_way(path.parent), self._check_no_folder(path))
        entry = await self.store(key_of(path), chunks, content_type, replace=replace, at_most=at_most)
        entry.name = path.name
        return entry

    async def make_folder(self, path: Path) -> None:
        if path.is_root:
            return
        self._check_key(path)
        await self._check_way(path)
        await self._mark(folder_key(path))

    async def _mark(self, key: str) -> None:
        try:
            await self.store(key, _nothing(), "application/x-directory", replace=False, at_most=0)
        except AlreadyExists:
            pass

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        self._check_key(path)
        entry = await self.find(key_of(path))
        if entry and not entry.is_folder:
            await self.remove([key_of(path)])
            return
        prefix = folder_key(path)
        listing = await self.list_keys(prefix, 2, None, flat=True)
        keys = _keys(prefix, listing)
        if not (keys or listing.token or entry):
            raise NotFound(f"There is no '{path.name}'.")
        if not recursive and (listing.token or set(keys) - {prefix}):
            raise FolderNotEmpty(
                f"'{path.name}' is not empty; add recursive=true to remove it with its content."
            )
        if recursive:
            await self._remove_tree(prefix)
        if entry or not recursive:
            await self.remove([prefix])

    async def copy(self, source: Path, target: Path, *, replace: bool = True) -> None:
        await self._transfer(source, target, replace)

    async def move(self, source: Path, target: Path, *, replace: bool = True) -> None:
        copied = await self._transfer(source, target, replace)
        for start in range(0, len(copied), self.max_page_size):
            await self.remove(copied[start : start + self.max_page_size])

    async def _transfer(self, source: Path, target: Path, replace: bool) -> list[str]:
        """Copy a file or a tree; the keys that were copied."""
        self._check_key(source)
        self._check_key(target)
        await self._check_way(target.parent)
        source_key, target_key = key_of(source), key_of(target)
        marked = None if source.is_root else await self.find(source_key)
        if marked and not marked.is_folder:
            await self._check_no_folder(target)
            await self.duplicate(source_key, target_key, replace=replace)
            return [source_key]
        if not (marked or await self._holds_anything(source)):
            raise NotFound(f"There is no '{source.name}'.")
        standing = await self.find(target_key)
        merging = bool(standing) or await self._holds_anything(target)
        if merging and not (replace and (not standing or standing.is_folder)):
            raise AlreadyExists(
                f"'{target.name}' exists already and was not replaced; choose another name or onConflict."
            )
        copied = await self._copy_tree(folder_key(source), folder_key(target), replace, merging)
        if marked:
            await self._mark(folder_key(target))
            copied.append(folder_key(source))
        return copied

    async def _copy_tree(self, source: str, target: str, replace: bool, merging: bool) -> list[str]:
        copied: list[str] = []
        folders: set[str] = set()

        async def copy_one(key: str) -> None:
            place = target + key[len(source) :]
            try:
                if merging:
                    await self._check_merge(target, place, folders)
                await self.duplicate(key, place, replace=replace)
            except NotFound:
                return  # somebody deleted it meanwhile
            copied.append(key)

        try:
            async for keys in self._walk(source):
                await each(copy_one, keys)
        except PorticoError as error:
            raise error.after(f"{len(copied)} files were copied") from error
        return copied

    async def _check_merge(self, top: str, key: str, folders: set[str]) -> None:
        """That below `top` no folder takes the place of a file, nor a file that of a folder.

        `folders` holds what is known to be in nobody's way.
        """
        *above, name = key[len(top) :].split("/")
        for depth in range(len(above)):
            folder = top + "/".join(above[: depth + 1])
            if folder not in folders:
                found = await self.find(folder)
                if found and not found.is_folder:
                    raise AlreadyExists(f"'{above[depth]}' is a file; a folder cannot take its place.")
                folders.add(folder)
        if name and _keys(f"{key}/", await self.list_keys(f"{key}/", 1, None, flat=True)):
            raise IsAFolder(f"'{name}' is a folder; a file cannot take its place.")

    async def _remove_tree(self, prefix: str) -> None:
        removed = 0
        try:
            async for keys in self._walk(prefix):
                await self.remove(keys)
                removed += len(keys)
        except PorticoError as error:
            raise error.after(f"{removed} files were deleted") from error

    async def _walk(self, prefix: str) -> AsyncIterator[list[str]]:
        """Every key below `prefix`, a page at a time."""
        token = None
        while True:
            listing = await self.list_keys(prefix, self.max_page_size, token, flat=True)
            if keys := _keys(prefix, listing):
                yield keys
            if listing.token is None:
                return
            token = listing.token

    async def _holds_anything(self, folder: Path) -> bool:
        prefix = folder_key(folder)
        listing = await self.list_keys(prefix, 1, None, flat=True)
        return bool(listing.token or _keys(prefix, listing))

    async def _check_no_folder(self, path: Path) -> None:
        if await self._holds_anything(path):
            raise IsAFolder(f"'{path.name}' is a folder; a file cannot take its place.")

    async def _check_way(self, folder: Path) -> None:
        """`NotAFolder` if the folder, or one above it, is a file."""
        above = [Path(folder.segments[:depth]) for depth in range(1, len(folder.segments) + 1)]
        found = await asyncio.gather(*(self.find(key_of(path)) for path in above))
        for path, entry in zip(above, found, strict=True):
            if entry and not entry.is_folder:
                raise NotAFolder(f"'{path.name}' is a file, not a folder.")

    def _check_key(self, path: Path) -> None:
        if len(key_of(path).encode()) >= self.max_key_bytes:
            raise InvalidPath(f"The whole path may have {self.max_key_bytes - 1} bytes in this storage.")


def key_of(path: Path) -> str:
    return "/".join(path.segments)


def folder_key(path: Path) -> str:
    """What the keys of everything in the folder begin with: always ending in a slash, so that `al` is not `alice`."""
    return key_of(path) + "/" if path.segments else ""


def _folder_entry(path: Path) -> Entry:
    return Entry(path.name, True, content_type=FOLDER_TYPE)


def _entries(prefix: str, listing: Listing) -> tuple[list[Entry], bool]:
    """What a listing shows as the content of its folder, and whether the folder's own marker was among it."""
    cut = len(prefix)
    keys = [entry.name for entry in listing.objects]
    names = [key[cut:] for key in keys]
    marked = any(key.startswith(prefix) for key in keys)  # even by what has no name that could be shown
    # A page is nearly always flawless, and to see that of all names at once costs little.
    if flawless_names(names) and all(key.startswith(prefix) for key in keys):
        entries = listing.objects
    else:
        shown = [key != prefix and _shown(prefix, key, name) for key, name in zip(keys, names, strict=True)]
        entries = list(compress(listing.objects, shown))
        names = list(compress(names, shown))
    for entry, name in zip(entries, names, strict=True):
        entry.name = name
    for key in dict.fromkeys(listing.prefixes):
        name = key[cut:].removesuffix("/")
        if _shown(prefix, key, name):
            entries.append(Entry(name, True, content_type=FOLDER_TYPE))
        else:
            marked = True  # there is something, even if it has no name that could be shown
    return entries, marked


def _shown(prefix: str, key: str, name: str) -> bool:
    flaw = name_flaw(name) if key.startswith(prefix) else "lies outside of the folder that was asked for"
    if flaw and not name.startswith(RESERVED_PREFIX):
        log.warning("left-out-of-listing", key=ascii(key), why=f"the name {flaw}")
    return not flaw


def _keys(prefix: str, listing: Listing) -> list[str]:
    return [entry.name for entry in listing.objects if entry.name.startswith(prefix)]


async def each(work: Callable[[str], Awaitable[None]], keys: Iterable[str]) -> None:
    """Do the work for all keys, a few at a time; the first failure is raised when what runs has ended."""
    waiting = iter(keys)

    async def worker() -> None:
        for key in waiting:
            await work(key)

    for error in await asyncio.gather(*(worker() for _ in range(_AT_ONCE)), return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
