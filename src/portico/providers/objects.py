"""Files and folders on a store that has only keys: what S3, Azure Blob and Google Cloud Storage share.

A folder exists while a key lies below it, or as a zero-byte marker whose key ends in a slash. So a file `a` and a
folder `a/` may be there both. Then `a` is the file, `a/` (`Path.as_folder`) is the folder, and so is what is listed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from portico.entries import Download, Entry, Page
from portico.errors import FolderNotEmpty, InvalidPath, IsAFolder, NotAFolder, NotFound, already_exists
from portico.paths import Path
from portico.providers.keys import KeyStore, Version, entries_of, folder_entry, folder_key, key_of
from portico.providers.object_trees import (
    copy_object,
    copy_tree,
    remove_copied,
    remove_empty_folders,
    remove_tree,
)

_PLAIN_SECONDS = 10.0
"""How long a folder is listed without asking again whether a file has the same name, which only others can have made."""
_MOST_PLAIN = 4096


class ObjectStore(KeyStore):
    def __init__(self) -> None:
        self._plain: dict[str, float] = {}
        """Prefixes of folders beside which there was no file of the same name, and until when that is believed."""

    # Looking

    async def list_page(
        self, folder: Path, size: int, token: str | None, *, file_first: bool = False
    ) -> Page:
        self._check_key(folder)
        prefix = folder_key(folder)
        if not self.fits(prefix):
            await self._check_folder(folder)
        if file_first and not folder.is_root and time.monotonic() > self._plain.get(prefix, 0.0):
            found, listing = await asyncio.gather(
                self.find(key_of(folder)), self.list_keys(prefix, size, token)
            )
            if found and not found.is_folder:
                raise _no_folder(folder)
            self._note_plain(prefix)
        else:
            listing = await self.list_keys(prefix, size, token)
        entries, marked = entries_of(prefix, listing)
        if not (entries or marked or listing.token or folder.is_root) and (
            token is None or not await self._is_folder(folder)
        ):
            await self._check_folder(folder)
        return Page(entries, listing.token)

    def _note_plain(self, prefix: str) -> None:
        if len(self._plain) >= _MOST_PLAIN:
            self._plain.clear()
        self._plain[prefix] = time.monotonic() + _PLAIN_SECONDS

    async def _check_folder(self, folder: Path) -> None:
        """`NotFound` or `NotAFolder` for a folder below which there is nothing, unless it is marked as one."""
        entry = await self.find(key_of(folder))
        if entry is None:
            raise _missing(folder)
        if not entry.is_folder:
            raise _no_folder(folder)

    async def stat(self, path: Path) -> Entry:
        if path.is_root:
            return folder_entry(path)
        self._check_key(path)
        entry = await self._found(path)
        if entry:
            entry.name = path.name
            return entry
        if await self._is_folder(path):
            return folder_entry(path)
        raise _missing(path)

    async def _found(self, path: Path) -> Entry | None:
        """The object at the path's own key, but no file where the folder beside it is meant."""
        entry = await self.find(key_of(path))
        if entry and not entry.is_folder and path.as_folder and await self._is_folder(path):
            return None
        return entry

    async def _is_folder(self, path: Path) -> bool:
        return await self.holds_keys(folder_key(path))

    async def read(
        self, path: Path, start: int = 0, stop: int | None = None, *, etag: str | None = None
    ) -> Download:
        if path.is_root:
            raise IsAFolder("The root is a folder.")
        self._check_key(path)
        try:
            download = await self.open(key_of(path), start, stop, etag)
        except NotFound:
            if await self._is_folder(path):
                raise IsAFolder(f"'{path.name}' is a folder.") from None
            raise
        download.entry.name = path.name
        return download

    # Making

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
        self._check_key(path)
        if way_checked:
            await self._check_no_folder(path)
        else:
            await asyncio.gather(self.check_way(path.parent), self._check_no_folder(path))
        entry = await self.store(key_of(path), chunks, content_type, replace=replace, at_most=at_most)
        entry.name = path.name
        return entry

    async def make_folder(self, path: Path) -> None:
        if path.is_root:
            return
        self._check_key(path, as_folder=True)
        await self.check_way(path)
        await self.mark(folder_key(path))

    async def check_way(self, folder: Path) -> None:
        # Above a folder that holds something there are only folders that hold something. So the deepest of these is
        # found by bisection, and of all below it only the next one can be a file.
        holding, deepest = 0, len(folder.segments)
        depth = deepest
        while holding < deepest:
            if await self._is_folder(Path(folder.segments[:depth])):
                holding = depth
            else:
                deepest = depth - 1
            depth = (holding + deepest + 1) // 2
        if holding == len(folder.segments):
            return
        first = Path(folder.segments[: holding + 1])
        entry = await self.find(key_of(first))
        if entry and not entry.is_folder:
            raise _no_folder(first)

    async def _check_no_folder(self, path: Path) -> None:
        if await self._is_folder(path):
            raise IsAFolder(f"'{path.name}' is a folder; a file cannot take its place.")

    # Removing

    async def delete(self, path: Path, *, recursive: bool = False) -> None:
        self._check_key(path)
        entry = await self._found(path)
        if entry and not entry.is_folder:
            await self.remove([key_of(path)])
            return
        prefix = folder_key(path)
        if not self.fits(prefix):
            raise _missing(path)
        listing = await self.peek(prefix, 2)
        if not (entry or listing.holds_anything(prefix)):
            raise _missing(path)
        inside = {*(found.name for found in listing.objects), *listing.prefixes} - {prefix}
        if not recursive and (listing.token or any(key.startswith(prefix) for key in inside)):
            raise FolderNotEmpty(
                f"'{path.name}' is not empty; add recursive=true to remove it with its content."
            )
        if recursive:
            await remove_tree(self, prefix)
        if entry or not recursive:
            await self.remove([prefix])

    # Copying and moving

    async def copy(self, source: Path, target: Path, *, replace: bool = True) -> None:
        await self._transfer(source, target, replace)

    async def move(self, source: Path, target: Path, *, replace: bool = True) -> None:
        copied, is_folder = await self._transfer(source, target, replace)
        if is_folder:
            await remove_copied(self, copied)
            await remove_empty_folders(self, folder_key(source))
        else:
            await self.remove_versions(copied)

    async def _transfer(self, source: Path, target: Path, replace: bool) -> tuple[list[Version], bool]:
        """Copy a file or a tree; what was copied, and whether it was a tree."""
        self._check_key(source)
        self._check_key(target)
        await self.check_way(target.parent)
        marked = None if source.is_root else await self._found(source)
        if marked and not marked.is_folder:
            await self._check_no_folder(target)
            seen = Version(key_of(source), marked.etag)
            copy = await copy_object(self, seen, key_of(target), replace=replace)
            return [copy] if copy else [], False
        if not (marked or await self._is_folder(source)):
            raise _missing(source)
        self._check_key(target, as_folder=True)
        standing = await self.find(key_of(target))
        merging = bool(standing) or await self._is_folder(target)
        if merging and not (replace and (not standing or standing.is_folder)):
            raise already_exists(target.name)
        origin, goal = folder_key(source), folder_key(target)
        copied = await copy_tree(self, origin, goal, replace=replace, merging=merging)
        if marked or not copied:
            await self.mark(goal)
            copied.append(Version(origin, None))
        return copied, True

    def _check_key(self, path: Path, *, as_folder: bool = False) -> None:
        if not self.fits(folder_key(path) if as_folder else key_of(path)):
            raise InvalidPath(self.key_limit)

    @property
    def key_limit(self) -> str:
        """How long a path may be, as a sentence."""
        return f"A whole path may have {self.max_key_bytes} bytes in this storage, that of a folder one less."


def _missing(path: Path) -> NotFound:
    return NotFound(f"There is no '{path.name}'.")


def _no_folder(path: Path) -> NotAFolder:
    return NotAFolder(f"'{path.name}' is a file, not a folder.")
