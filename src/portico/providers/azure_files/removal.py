"""Removing folders, and what failed uploads and removals left behind."""

from portico.errors import FolderNotEmpty, not_found
from portico.paths import Path
from portico.providers.azure_common import ServiceError
from portico.providers.azure_files.service import Share
from portico.providers.azure_files.staging import STAGING, hidden_path, is_abandoned
from portico.providers.azure_files.targets import relocate
from portico.providers.azure_files.traversal import counting, pages
from portico.providers.tasks import for_each
from portico.tally import count


async def remove(share: Share, folder: Path) -> None:
    """Remove a folder and its content: hidden at once by a rename, then deleted file by file."""
    found = await share.folder(folder)
    if found is None:
        raise not_found(folder.name)
    trash = hidden_path()
    try:
        await relocate(share, found, folder, trash, replace=False)
    except ServiceError as error:
        if error.status != 409:
            raise
        trash = folder  # something in it is in use: remove what can be removed
    await _remove_tree(share, trash)


async def _remove_tree(share: Share, top: Path) -> None:
    done = 0
    pending = [(top, False)]

    async def remove_one(path: Path) -> None:
        nonlocal done
        if await share.delete_file(path):
            done += 1
            count()

    with counting(lambda: f"{done} files were deleted", top):
        while pending:
            here, emptied = pending.pop()
            if emptied:
                await remove_emptied(share, here)
                continue
            pending.append((here, True))
            async for page in pages(share, here):
                inside = [(entry, Path((*here.segments, entry.name))) for entry in page.entries]
                await for_each(remove_one, (path for entry, path in inside if not entry.is_folder))
                pending += [(path, False) for entry, path in inside if entry.is_folder]


async def remove_emptied(share: Share, folder: Path) -> None:
    """Remove a folder whose content was removed, unless it has new content."""
    try:
        await share.delete_folder(folder)
    except ServiceError as error:
        if error.code != "DirectoryNotEmpty":
            raise
        raise FolderNotEmpty(f"'{folder.name}' holds new content.") from error


async def sweep(share: Share) -> int:
    """Remove what failed uploads and deletions left in the staging folder. Returns how many there were."""
    swept = 0
    async for page in pages(share, STAGING):
        for entry in page.entries:
            path = Path((*STAGING.segments, entry.name))
            if entry.is_folder:  # being removed, possibly by another worker as well
                await _remove_tree(share, path)
                swept += 1
            elif entry.modified and is_abandoned(entry.name, page.now - entry.modified):
                swept += await share.delete_file(path)
    return swept
