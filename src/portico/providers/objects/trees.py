"""Copying, moving and removing whole trees of an object store, object by object, a page at a time.

Each operation can be cancelled at any point, also within a batch. Every object stays whole: a copy exists or does not,
a source is removed only after its copy exists, and what was removed stays removed.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from portico.model.entries import Entry
from portico.model.errors import (
    AlreadyExists,
    Changed,
    InvalidPath,
    NotFound,
    ProviderFailed,
    cannot_replace_folder,
    changed,
    counting,
    not_found,
    service_failed,
)
from portico.providers.objects.service import ObjectService, Version, name_of
from portico.runtime.progress_counter import count
from portico.runtime.tasks import for_each

ATTEMPTS = 4
"""How often the copy or removal of an object that keeps being replaced is tried."""


async def copy_object(store: ObjectService, source: Version, target: str, *, replace: bool, **over: Any) -> Version:
    """Copy an object. Returns the version that was copied, which may be newer than `source`.

    If the object keeps being replaced, any version is copied: if the returned one is still there, it was that one.
    `over`: as of `ObjectService.duplicate`.
    """
    for _ in range(ATTEMPTS):
        began = time.monotonic()
        try:
            await _duplicate(store, source, target, replace=replace, **over)
            return source._replace(copied_at=began)
        except Changed:
            source = await _current(store, source.key)
    await _duplicate(store, Version(source.key, None), target, replace=replace, **over)
    return source


async def _duplicate(store: ObjectService, source: Version, target: str, **over: Any) -> None:
    try:
        await store.duplicate(source, target, **over)
    except NotFound as error:
        now = await _current(store, source.key)
        if source.key.endswith("/"):
            await store.mark(target)  # SeaweedFS does not copy the markers of folders
        elif source.etag in (now.etag, None):
            raise service_failed("the service does not find an object to copy that is there") from error
        else:
            raise changed(name_of(source.key)) from error


async def _current(store: ObjectService, key: str) -> Version:
    found = await store.find(key)
    if found is None or found.is_folder:
        raise not_found(name_of(key))
    return Version(key, found.etag)


async def copy_tree(store: ObjectService, source: str, target: str, *, replace: bool, merging: bool) -> list[Version]:
    """Copy everything below one prefix to another. Returns what was copied."""
    copied: list[Version] = []
    folders: set[str] = set()

    async def copy_one(entry: Entry) -> None:
        version = Version(entry.name, entry.etag)
        key = target + version.key[len(source) :]
        try:
            if merging:
                await check_merge(store, target, key, folders)
            copied.append(await copy_object(store, version, key, replace=replace))
            if not entry.name.endswith("/"):
                count(size=entry.size)
        except NotFound:
            return  # deleted in the meantime

    with counting(lambda: f"{len(copied)} files were copied"):
        async for listing in store.pages(source, flat=True):
            await for_each(copy_one, listing.objects)
    return copied


async def check_merge(store: ObjectService, top: str, key: str, folders: set[str]) -> None:
    """Fail if, below `top`, a folder would replace a file or a file a folder. `folders` caches what was checked."""
    *above, name = key[len(top) :].split("/")
    for depth in range(len(above)):
        folder = top + "/".join(above[: depth + 1])
        if folder not in folders:
            found = await store.find(folder)
            if found and not found.is_folder:
                raise AlreadyExists(f"'{above[depth]}' is a file, and a folder can't replace it. Choose another name.")
            folders.add(folder)
    if name and await store.holds_keys(f"{key}/"):
        raise cannot_replace_folder(name)


async def remove_copied(store: ObjectService, copied: list[Version]) -> list[Version]:
    """Remove the sources of a move. Returns those that stay, as they were replaced after they were copied."""
    removed = 0
    newer: list[Version] = []
    with counting(lambda: f"All {len(copied)} files were copied, and {removed} of them removed at the source"):
        for start in range(0, len(copied), store.max_page_size):
            batch = copied[start : start + store.max_page_size]
            newer += await store.remove_versions(batch)
            removed += len(batch)
    return newer


async def move_tree(store: ObjectService, source: str, target: str) -> int:
    """Move everything to a prefix where nothing is: each object is in one or in both. Returns how many there were."""
    return await _empty(store, source, lambda found: move_objects(store, found, source, target))


async def remove_tree(store: ObjectService, prefix: str) -> None:
    """Remove everything below the prefix, including empty folders that the store keeps."""

    async def remove(found: list[Entry]) -> list[int | None]:
        if found:
            await store.remove([entry.name for entry in found])
        return [file_size(entry) for entry in found]

    await _empty(store, prefix, remove)


async def _empty(store: ObjectService, prefix: str, work: Callable[[list[Entry]], Awaitable[list[int | None]]]) -> int:
    """Let `work` take away all below the prefix; it returns sizes for `count_files`. Returns how many there were."""
    done = 0
    with counting(lambda: f"{done} files were deleted"):
        for _ in range(store.removal_passes):
            async for listing in store.pages(prefix, flat=True):
                sizes = await work(listing.objects)
                done += len(sizes)
                count_files(sizes)
            if not await store.holds_keys(prefix):
                return done
        await remove_empty_folders(store, prefix)
    return done


def file_size(entry: Entry) -> int | None:
    """The size of a file, whose name is the whole key; None for a folder's marker."""
    return None if entry.is_folder or entry.name.endswith("/") else entry.size or 0


def count_files(sizes: Collection[int | None]) -> None:
    """Count files as done by their sizes; those that are None are markers of folders."""
    files = [size for size in sizes if size is not None]
    count(len(files), sum(files))


async def move_objects(
    store: ObjectService, objects: list[Entry], source: str, target: str, *, replace: bool = True
) -> list[int | None]:
    """Move objects from one prefix to another, in the trash unless the caller has checked that they fit.

    One that is replaced in the meantime is moved as it is then. Returns the size of each that was moved, None for a
    folder's marker.
    """
    sizes: dict[str, int | None] = {}
    pending = [Version(entry.name, entry.etag) for entry in objects]
    known = {entry.name: file_size(entry) for entry in objects}
    copied: list[Version] = []

    async def copy_one(version: Version) -> None:
        goal = target + version.key[len(source) :]
        if not store.fits(goal):
            raise InvalidPath(
                f"The path of '{name_of(version.key)}' is too long for the trash. To delete the "
                "file for good, add permanent=true."
            )
        try:
            copied.append(await copy_object(store, version, goal, replace=replace or version.key in sizes))
        except NotFound:
            return  # deleted in the meantime
        sizes[version.key] = known[version.key]

    for _ in range(ATTEMPTS):
        copied.clear()
        await for_each(copy_one, pending)
        pending = await store.remove_versions(copied)
        if not pending:
            return list(sizes.values())
    raise changed(name_of(pending[0].key))


async def remove_empty_folders(store: ObjectService, prefix: str) -> None:
    """Remove a folder that holds nothing but folders.

    Stores that are file systems inside keep folders when their last object is removed. If new content has arrived,
    nothing is removed.
    """
    if not await store.holds_keys(prefix):
        return
    if (await store.list_keys(prefix, 1, None, flat=True)).holds_anything(prefix):
        return
    by_depth: defaultdict[int, list[str]] = defaultdict(list)
    pending = [prefix]
    while pending:
        folder = pending.pop()
        if not store.fits(folder):
            raise ProviderFailed(
                "The storage lists endlessly nested folders. Tell your administrator.",
                cause="the service sent a folder whose key exceeds the longest possible key",
            )
        by_depth[folder.count("/")].append(folder)
        async for listing in store.pages(folder, flat=False):
            pending += listing.prefixes
    for depth in sorted(by_depth, reverse=True):
        folders = by_depth[depth]
        for start in range(0, len(folders), store.max_page_size):
            await store.remove(folders[start : start + store.max_page_size])
