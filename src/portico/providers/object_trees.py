"""Whole trees of a store of keys: copied, moved and removed object by object, a page at a time.

Each is ended by cancelling it, within a batch, too. That leaves objects that are whole: a copy is there or is not, a
source goes only after its copy is there, and what was removed stays removed.
"""

from collections import defaultdict

from portico.errors import (
    AlreadyExists,
    Changed,
    IsAFolder,
    NotFound,
    PorticoError,
    ProviderFailed,
)
from portico.providers.keys import KeyStore, Version
from portico.providers.tasks import each

_ATTEMPTS = 4
"""At copying one object that is replaced all the time."""


async def copy_object(store: KeyStore, source: Version, target: str, *, replace: bool) -> Version | None:
    """Copy an object; the version that was copied, which may be newer than the one that was seen.

    None for one that is replaced all the time: it was copied as it was at some moment, and must stay at its source.
    """
    for _ in range(_ATTEMPTS):
        try:
            await store.duplicate(source, target, replace=replace)
            return source
        except Changed:
            found = await store.find(source.key)
            if found is None or found.is_folder:
                raise NotFound(f"There is no '{_name(source.key)}'.") from None
            source = Version(source.key, found.etag)
    await store.duplicate(Version(source.key, None), target, replace=replace)
    return None


async def copy_tree(
    store: KeyStore, source: str, target: str, *, replace: bool, merging: bool
) -> list[Version]:
    """Copy all below one prefix to below another; what was copied."""
    copied: list[Version] = []
    folders: set[str] = set()

    async def copy_one(version: Version) -> None:
        place = target + version.key[len(source) :]
        try:
            if merging:
                await _check_merge(store, target, place, folders)
            if done := await copy_object(store, version, place, replace=replace):
                copied.append(done)
        except NotFound:
            return  # somebody deleted it meanwhile

    try:
        async for listing in store.pages(source, flat=True):
            await each(copy_one, [Version(entry.name, entry.etag) for entry in listing.objects])
    except PorticoError as error:
        raise error.after(f"{len(copied)} files were copied") from error
    return copied


async def _check_merge(store: KeyStore, top: str, key: str, folders: set[str]) -> None:
    """That below `top` no folder takes the place of a file, nor a file that of a folder.

    `folders` holds what is known to be in nobody's way.
    """
    *above, name = key[len(top) :].split("/")
    for depth in range(len(above)):
        folder = top + "/".join(above[: depth + 1])
        if folder not in folders:
            found = await store.find(folder)
            if found and not found.is_folder:
                raise AlreadyExists(f"'{above[depth]}' is a file; a folder cannot take its place.")
            folders.add(folder)
    if name and await store.holds_keys(f"{key}/"):
        raise IsAFolder(f"'{name}' is a folder; a file cannot take its place.")


async def remove_copied(store: KeyStore, copied: list[Version]) -> None:
    """Remove the sources of a move, but nothing that was replaced since it was copied."""
    removed = 0
    try:
        for start in range(0, len(copied), store.max_page_size):
            batch = copied[start : start + store.max_page_size]
            await store.remove_versions(batch)
            removed += len(batch)
    except PorticoError as error:
        done = f"All {len(copied)} files were copied, and {removed} of them removed at the source"
        raise error.after(done) from error


async def remove_tree(store: KeyStore, prefix: str) -> None:
    """Remove all below the prefix, folders that the store keeps without content included."""
    removed = 0
    try:
        for _ in range(store.removal_passes):
            async for listing in store.pages(prefix, flat=True):
                if keys := [entry.name for entry in listing.objects]:
                    await store.remove(keys)
                    removed += len(keys)
            if not await store.holds_keys(prefix):
                return
        await remove_empty_folders(store, prefix)
    except PorticoError as error:
        raise error.after(f"{removed} files were deleted") from error


async def remove_empty_folders(store: KeyStore, prefix: str) -> None:
    """Remove a folder that holds nothing but folders.

    Stores that are a file system within keep them when their last object goes. Where content has come meanwhile, all
    is left as it is.
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
                "The storage service shows folders without an end; tell the administrator.",
                cause="the service sent a folder whose key is longer than a key can be",
            )
        by_depth[folder.count("/")].append(folder)
        async for listing in store.pages(folder, flat=False):
            pending += listing.prefixes
    for depth in sorted(by_depth, reverse=True):
        folders = by_depth[depth]
        for start in range(0, len(folders), store.max_page_size):
            await store.remove(folders[start : start + store.max_page_size])


def _name(key: str) -> str:
    return key.removesuffix("/").rpartition("/")[2]
