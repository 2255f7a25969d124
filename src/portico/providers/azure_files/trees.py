"""Copying and moving files and whole folders."""

import asyncio
from contextlib import suppress

from portico.model.entries import Entry
from portico.model.errors import (
    AlreadyExists,
    FolderNotEmpty,
    InvalidPath,
    NotFound,
    NotPossible,
    already_exists,
    cannot_replace_folder,
    counting,
    is_a_folder,
    not_found,
)
from portico.model.paths import Path
from portico.providers.azure_common.errors import ServiceError, translated
from portico.providers.azure_files import names
from portico.providers.azure_files.service import Found, Share
from portico.providers.azure_files.staging import STAGING, StagedFile, hidden_path, is_abandoned
from portico.providers.azure_files.targets import (
    check_file_target,
    check_folder_target,
    check_version,
    entries,
    make_folders,
    pages,
    relocate,
)
from portico.providers.contract.uploads import Ends, KeptFile, over_kept
from portico.runtime.progress_counter import count
from portico.runtime.tasks import for_each


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

    with counting(lambda: f"{done} files were deleted"), translated(top.name):
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
        raise FolderNotEmpty(
            f"New files were added to '{folder.name}' in the meantime, so it was not deleted. Check them and try again."
        ) from error


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


async def look_at_both(share: Share, source: Path, target: Path, *, replace: bool) -> Ends | None:
    """None for one and the same place, whose name may change in case."""
    if names.holds(source, target) or names.holds(target, source):
        return None
    found, look = await asyncio.gather(
        _found(share, source), check_file_target(share, target, replace=replace), return_exceptions=True
    )
    if isinstance(found, BaseException):
        raise found
    if found.entry.is_folder:
        return Ends(found.entry, None)
    if isinstance(look, BaseException):
        raise look
    return Ends(found.entry, look, source_id=found.id)


async def copy(
    share: Share, source: Path, target: Path, *, replace: bool, kept: KeptFile | None, ends: Ends | None
) -> None:
    found = await _found(share, source, ends)
    _check_apart(source, target)
    if not found.entry.is_folder:
        if ends is None:
            await check_file_target(share, target, replace=replace)
        await _copy_file(share, source, found.entry, target, replace=replace, kept=kept)
        count(size=found.entry.size)
        return
    if await check_folder_target(share, target, replace=replace):
        await _check_merge(share, source, target)
    await _copy_tree(share, source, target, replace=replace)


async def move(
    share: Share, source: Path, target: Path, *, replace: bool, kept: KeptFile | None, ends: Ends | None
) -> None:
    found = await _found(share, source, ends)
    if names.holds(source, target) and len(source.segments) == len(target.segments):
        # Only the case changes. To the service both paths are the same: nothing is replaced or removed.
        try:
            await share.rename(source, target, is_folder=found.entry.is_folder)
        except ServiceError as error:
            if error.status != 409:
                raise
            raise NotPossible(
                "This storage can't change only the case of a name. Move the item to another name first."
            ) from error
        return
    _check_apart(source, target)
    if not found.entry.is_folder:
        if ends is None:
            await check_file_target(share, target, replace=replace)

        async def rename(replace: bool, if_match: str | None) -> None:
            if if_match is not None:
                await check_version(share, target, if_match)
            await relocate(share, found, source, target, replace=replace)

        await over_kept(kept, target.name, replace, None, rename, prepared=True)
    elif await check_folder_target(share, target, replace=replace):
        await _check_merge(share, source, target)
        await _merge(share, source, target)
    else:
        await relocate(share, found, source, target, replace=False)


async def _found(share: Share, path: Path, ends: Ends | None = None) -> Found:
    if ends and not ends.source.is_folder:
        return Found(ends.source, ends.source_id)
    if found := await share.find(path):
        return found
    raise not_found(path.name)


def _check_apart(source: Path, target: Path) -> None:
    if names.holds(source, target) or names.holds(target, source):
        raise NotPossible(
            "You can't move or copy a folder into itself or one of its subfolders, or over a folder that contains it."
        )


async def _copy_file(
    share: Share, source: Path, entry: Entry, target: Path, *, replace: bool, kept: KeptFile | None = None
) -> None:
    """Copy a file with its time, which the service does not do by itself."""
    staged = StagedFile(share, "")
    try:
        await staged.copy(source)

        async def commit(replace: bool, if_match: str | None) -> None:
            await staged.commit(target, replace=replace, if_match=if_match, modified=entry.modified)

        await over_kept(kept, target.name, replace, None, commit, prepared=True)
    except BaseException:
        await asyncio.shield(staged.discard())
        raise


async def copy_to_trash(share: Share, path: Path, place: Path, seen: Entry | None) -> None:
    names.check(place)
    entry = seen or (await _found(share, path)).entry
    if entry.is_folder:
        raise is_a_folder(path.name)
    await _copy_file(share, path, entry, place, replace=False)


async def move_to_trash(share: Share, path: Path, place: Path) -> None:
    """One rename, whatever it holds. If something in a folder is in use, what is not is moved."""
    found = await _found(share, path)
    try:
        await relocate(share, found, path, place, replace=False)
    except ServiceError as error:
        if error.status != 409 or not found.entry.is_folder:
            raise
        await make_folders(share, place)
        await _merge(share, path, place)


async def _check_merge(share: Share, source: Path, target: Path) -> None:
    """Fail before anything changes if a file and a folder would collide."""
    pending = [(source, target)]
    while pending:
        source, target = pending.pop()
        there = {names.folded(entry.name): entry async for entry in entries(share, target)}
        async for entry in entries(share, source):
            other = there.get(names.folded(entry.name))
            if other is None:
                continue
            if entry.is_folder and other.is_folder:
                pending.append((source.child(entry.name), target.child(other.name)))
            elif entry.is_folder:
                raise already_exists(entry.name)
            elif other.is_folder:
                raise cannot_replace_folder(entry.name)
            elif entry.name != other.name:
                raise InvalidPath(
                    f"'{entry.name}' and '{other.name}' differ only in case, which this storage "
                    "doesn't allow. Rename one of them first."
                )


async def _copy_tree(share: Share, source: Path, target: Path, *, replace: bool) -> None:
    done = 0
    pending = [(source, target)]

    async def copy_one(entry: Entry) -> None:
        nonlocal done
        try:
            await _copy_file(share, here.child(entry.name), entry, there.child(entry.name), replace=replace)
        except NotFound:
            if await share.file(here.child(entry.name)):
                raise
            return  # deleted in the meantime
        done += 1
        count(size=entry.size)

    with counting(lambda: f"{done} files were copied"), translated(target.name):
        while pending:
            here, there = pending.pop()
            await make_folders(share, there)
            async for page in pages(share, here):
                shown = [entry for entry in page.entries if names.shown(entry.name)]
                await for_each(copy_one, (entry for entry in shown if not entry.is_folder))
                pending += [(here.child(entry.name), there.child(entry.name)) for entry in shown if entry.is_folder]


async def _merge(share: Share, source: Path, target: Path) -> None:
    """Move the content of one folder into another; a folder that does not exist there is moved by one rename."""
    done = 0
    pending = [(source, target)]
    emptied: list[Path] = []
    with counting(lambda: f"{done} files and folders were moved"), translated(target.name):
        while pending:
            here, there = pending.pop()
            emptied.append(here)
            for entry in [entry async for entry in entries(share, here)]:
                step, goal = here.child(entry.name), there.child(entry.name)
                if not (found := await share.find(step)):
                    continue  # deleted in the meantime
                try:
                    await relocate(share, found, step, goal, replace=not entry.is_folder)
                    done += 1
                    count(size=entry.size)
                except AlreadyExists:
                    pending.append((step, goal))
        for folder in reversed(emptied):
            with suppress(FolderNotEmpty):  # new content stays
                await remove_emptied(share, folder)
