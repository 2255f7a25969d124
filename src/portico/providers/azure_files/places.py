"""What may come to stand where: looking at a target, making the folders on the way, renaming into place."""

import asyncio

from azure.core.exceptions import AzureError

from portico.entries import Entry
from portico.errors import AlreadyExists, InvalidPath, IsAFolder, NotAFolder, already_exists
from portico.paths import Path
from portico.providers.azure_common import Fault
from portico.providers.azure_files import names
from portico.providers.azure_files.share import Found, Share, file_entry, lacks_parent
from portico.providers.azure_files.walks import pages


async def check_file_target(share: Share, target: Path, *, replace: bool, way_checked: bool = False) -> None:
    """Look before a large body is taken in: what would fail at the rename fails now."""
    names.check(target)
    file, folder, parent = await asyncio.gather(
        share.file(target), share.folder(target), _known() if way_checked else share.folder(target.parent)
    )
    if folder:
        raise IsAFolder(f"'{target.name}' is a folder; a file cannot take its place.")
    if file and not replace:
        raise _exists(target)
    if file:
        await _check_spelling(share, target)
    if not parent:
        await check_way(share, target.parent)


async def _known() -> bool:
    return True


async def check_folder_target(share: Share, target: Path, *, replace: bool) -> bool:
    """Whether there is a folder at the target already, to merge with."""
    names.check(target)
    there = await share.find(target)
    if there and not (replace and there.entry.is_folder):
        raise _exists(target)
    if not there:
        await check_way(share, target.parent)
    return there is not None


async def check_way(share: Share, folder: Path) -> None:
    """`NotAFolder` if the folder, or one above it, is a file."""
    there = await _deepest(share, folder)
    if there < len(folder.segments):
        first = Path(folder.segments[: there + 1])
        if await share.file(first):
            raise NotAFolder(f"'{first.name}' is a file, not a folder.")


async def _deepest(share: Share, folder: Path) -> int:
    """How many of the folders on the way are there; found by bisection, from the deepest one on."""
    there, deepest = 0, len(folder.segments)
    depth = deepest
    while there < deepest:
        if await share.folder(Path(folder.segments[:depth])):
            there = depth
        else:
            deepest = depth - 1
        depth = (there + deepest + 1) // 2
    return there


async def _check_spelling(share: Share, target: Path) -> None:
    """`InvalidPath` if the file at the target is spelled otherwise: it is not the one that is meant to be replaced."""
    other = False
    async for listing in pages(share, target.parent, prefix=target.name):
        if any(entry.name == target.name for entry in listing.entries):
            return
        other = other or any(
            names.folded(entry.name) == names.folded(target.name) for entry in listing.entries
        )
    if other:  # else it has been removed meanwhile
        raise InvalidPath(
            f"'{target.name}' differs only in case from a file that is there, which this storage cannot hold; "
            "choose another name, or the same spelling to replace that file."
        )


async def make_folders(share: Share, path: Path) -> None:
    """Make the folder and those above it; one that exists is fine."""
    if path.is_root:
        return
    try:
        await _make_folder(share, path)
        return
    except Fault as fault:
        if not lacks_parent(fault):
            raise
    for depth in range(await _deepest(share, path.parent), len(path.segments)):
        await _make_folder(share, Path(path.segments[: depth + 1]))


async def _make_folder(share: Share, path: Path) -> None:
    try:
        await share.make_folder(path)
    except Fault as fault:
        if fault.code not in ("ResourceAlreadyExists", "ResourceTypeMismatch"):
            raise
        if not await share.folder(path):
            raise NotAFolder(f"'{path.name}' is a file, not a folder.") from fault


async def relocate(
    share: Share, found: Found, source: Path, target: Path, *, replace: bool, retry: bool = True
) -> Entry:
    """Rename a file or folder, with the folders on the way made; the entry that then stands at the target."""
    is_folder = found.entry.is_folder
    try:
        headers = await share.rename(source, target, is_folder=is_folder, replace=replace)
    except (Fault, AzureError) as error:
        if moved := await _moved_nevertheless(share, found, target, error):
            return moved
        if isinstance(error, Fault) and error.status == 409:
            await _check_free(share, target, is_folder=is_folder, replace=replace)
        if not (isinstance(error, Fault) and lacks_parent(error) and retry):
            raise
        await make_folders(share, target.parent)
        return await relocate(share, found, source, target, replace=replace, retry=False)
    if is_folder:
        return found.entry
    entry = file_entry(target.name, headers, found.entry.size)
    entry.content_type = found.entry.content_type
    return entry


async def _moved_nevertheless(
    share: Share, found: Found, target: Path, error: Fault | AzureError
) -> Entry | None:
    """What stands at the target if a rename was done and only its answer was lost: it has kept its id."""
    if isinstance(error, Fault) and not error.repeated and error.status < 500:
        return None
    there = await (share.folder(target) if found.entry.is_folder else share.file(target))
    return there.entry if there and there.id and there.id == found.id else None


async def _check_free(share: Share, target: Path, *, is_folder: bool, replace: bool) -> None:
    """Say what stands in the way of a rename, if something does."""
    there = await share.find(target)
    if there and there.entry.is_folder and not is_folder:
        raise IsAFolder(f"'{target.name}' is a folder; a file cannot take its place.")
    if there and (is_folder or not replace):
        raise _exists(target)


def _exists(target: Path) -> AlreadyExists:
    return already_exists(target.name)
