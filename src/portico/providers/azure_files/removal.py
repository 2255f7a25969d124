"""Removing folders, and what was left of uploads and removals that broke."""

from portico.errors import FolderNotEmpty, NotFound
from portico.paths import Path
from portico.providers.azure_common import Fault
from portico.providers.azure_files.places import relocate
from portico.providers.azure_files.share import Share
from portico.providers.azure_files.staging import ABANDONED, STAGING, hidden_path
from portico.providers.azure_files.walks import counting, pages
from portico.providers.tasks import each


async def remove(share: Share, folder: Path) -> None:
    """Remove a folder with all that it holds: out of sight at once and as a whole, then bit by bit."""
    found = await share.folder(folder)
    if found is None:
        raise NotFound(f"There is no '{folder.name}'.")
    trash = hidden_path()
    try:
        await relocate(share, found, folder, trash, replace=False)
    except Fault as fault:
        if fault.status != 409:
            raise
        trash = folder  # something in it is in use; what is not can go
    await _remove_tree(share, trash)


async def _remove_tree(share: Share, top: Path) -> None:
    done = 0
    pending = [(top, False)]

    async def remove_one(path: Path) -> None:
        nonlocal done
        done += await share.delete_file(path)

    with counting(lambda: f"{done} files were deleted", top):
        while pending:
            here, emptied = pending.pop()
            if emptied:
                await remove_emptied(share, here)
                continue
            pending.append((here, True))
            async for page in pages(share, here):
                inside = [(entry, Path((*here.segments, entry.name))) for entry in page.entries]
                await each(remove_one, (path for entry, path in inside if not entry.is_folder))
                pending += [(path, False) for entry, path in inside if entry.is_folder]


async def remove_emptied(share: Share, folder: Path) -> None:
    """Remove a folder whose content is gone, unless more has come meanwhile."""
    try:
        await share.delete_folder(folder)
    except Fault as fault:
        if fault.code != "DirectoryNotEmpty":
            raise
        raise FolderNotEmpty(f"'{folder.name}' holds what came into it meanwhile.") from fault


async def sweep(share: Share) -> int:
    """Remove what broken uploads and deletions left in the staging folder."""
    swept = 0
    async for page in pages(share, STAGING):
        for entry in page.entries:
            path = Path((*STAGING.segments, entry.name))
            if entry.is_folder:  # on its way out; two may carry it
                await _remove_tree(share, path)
                swept += 1
            elif entry.modified and page.now - entry.modified > ABANDONED:
                swept += await share.delete_file(path)
    return swept
