"""The target of a write, copy or move: checks, missing folders, and the rename into place."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime

from azure.core.exceptions import AzureError

from portico.model.entries import Entry
from portico.model.errors import InvalidPath, already_exists, cannot_replace_folder, changed, not_a_folder
from portico.model.paths import Path
from portico.providers.azure_common.errors import ServiceError, may_have_succeeded
from portico.providers.azure_files import names
from portico.providers.azure_files.errors import lacks_parent
from portico.providers.azure_files.listing import FolderListing
from portico.providers.azure_files.service import MAX_PAGE_SIZE, Found, Share, file_entry
from portico.providers.contract.uploads import Look
from portico.providers.objects.pending_names import existing_depth
from portico.providers.wire.responses import Progress, endless

_LOOK_SECONDS = 2.0
"""How old a look at a file may be when it is replaced."""
_STAGED_DEEPER = 2
"""How many levels deeper a folder in the staging folder may be."""


async def entries(share: Share, folder: Path) -> AsyncIterator[Entry]:
    """The entries that a listing of the folder shows."""
    async for page in pages(share, folder):
        for entry in page.entries:
            if names.shown(entry.name):
                yield entry


async def pages(share: Share, folder: Path, prefix: str = "") -> AsyncIterator[FolderListing]:
    """The pages of a folder with all names; none for a folder that does not exist."""
    if len(folder.segments) > names.MAX_DEPTH + _STAGED_DEEPER:
        raise endless("endlessly nested folders")
    token = None
    progress = Progress()
    while page := await share.list(folder, MAX_PAGE_SIZE, token, prefix):
        token = page.token
        progress.page([entry.name for entry in page.entries], token)
        yield page
        if token is None:
            return


async def check_file_target(
    share: Share, target: Path, *, replace: bool, ancestors_checked: bool = False, if_match: str | None = None
) -> Look:
    """Check before a large body is received: what would fail at the rename fails now. Returns the file that is there."""
    names.check(target)
    looked_at = time.monotonic()
    looks = [share.file(target), share.folder(target)]
    if not ancestors_checked:
        looks.append(share.folder(target.parent))
    file, folder, *parent = await asyncio.gather(*looks)
    if folder:
        raise cannot_replace_folder(target.name)
    if file and not replace:
        raise already_exists(target.name)
    if if_match is not None and (file is None or file.entry.etag != if_match):
        raise changed(target.name)
    if file:
        await _check_spelling(share, target)
    if parent == [None]:
        await check_ancestors(share, target.parent)
    # If there was none, the rename will replace none. A copy of one is that of its newest version.
    return Look(file.entry, looked_at + _LOOK_SECONDS) if file else Look(None)


async def check_version(share: Share, target: Path, etag: str) -> None:
    """`Changed` if the file at the target has another version."""
    there = await share.file(target)
    if there is None or there.entry.etag != etag:
        raise changed(target.name)


async def check_folder_target(share: Share, target: Path, *, replace: bool) -> bool:
    """Whether the target is an existing folder to merge into."""
    names.check(target)
    there = await share.find(target)
    if there and not (replace and there.entry.is_folder):
        raise already_exists(target.name)
    if not there:
        await check_ancestors(share, target.parent)
    return there is not None


async def check_ancestors(share: Share, folder: Path) -> None:
    depth = await existing_depth(folder, share.folder)
    if depth < len(folder.segments):
        first = Path(folder.segments[: depth + 1])
        if await share.file(first):
            raise not_a_folder(first.name)


async def _check_spelling(share: Share, target: Path) -> None:
    """`InvalidPath` if the file at the target differs in case: it is not the file to be replaced."""
    other = False
    async for listing in pages(share, target.parent, prefix=target.name):
        if any(entry.name == target.name for entry in listing.entries):
            return
        other = other or any(names.folded(entry.name) == names.folded(target.name) for entry in listing.entries)
    if other:  # otherwise it was removed in the meantime
        raise InvalidPath(
            f"A file exists whose name differs from '{target.name}' only in case, which this "
            "storage doesn't allow. Choose another name, or use the same spelling to replace that "
            "file."
        )


async def make_folders(share: Share, path: Path) -> int:
    """Make the folder and those above it; one that exists is fine. Returns how many were made if it was missing."""
    if path.is_root:
        return 0
    try:
        await _make_folder(share, path)
        return 1
    except ServiceError as error:
        if not lacks_parent(error):
            raise
    existing = await existing_depth(path.parent, share.folder)
    for depth in range(existing, len(path.segments)):
        await _make_folder(share, Path(path.segments[: depth + 1]))
    return len(path.segments) - existing


async def _make_folder(share: Share, path: Path) -> None:
    try:
        await share.make_folder(path)
    except ServiceError as error:
        if error.code not in ("ResourceAlreadyExists", "ResourceTypeMismatch"):
            raise
        if not await share.folder(path):
            raise not_a_folder(path.name) from error


async def relocate(
    share: Share,
    found: Found,
    source: Path,
    target: Path,
    *,
    replace: bool,
    modified: datetime | None = None,
    retry: bool = True,
) -> Entry:
    """Rename a file or folder, making missing folders. Returns the entry at the target."""
    is_folder = found.entry.is_folder
    try:
        headers = await share.rename(source, target, is_folder=is_folder, replace=replace, modified=modified)
    except (ServiceError, AzureError) as error:
        if may_have_succeeded(error):  # then a rename has kept the id
            there = await (share.folder(target) if is_folder else share.file(target))
            if there and there.id and there.id == found.id:
                return there.entry
        if isinstance(error, ServiceError) and error.status == 409:
            await _check_free(share, target, is_folder=is_folder, replace=replace)
        if not (isinstance(error, ServiceError) and lacks_parent(error) and retry):
            raise
        made = await make_folders(share, target.parent)
        entry = await relocate(share, found, source, target, replace=replace, modified=modified, retry=False)
        entry.made_folders = made
        return entry
    if is_folder:
        return found.entry
    entry = file_entry(target.name, headers, found.entry.size)
    entry.content_type = found.entry.content_type
    return entry


async def _check_free(share: Share, target: Path, *, is_folder: bool, replace: bool) -> None:
    """Raise what blocks a rename, if anything does."""
    there = await share.find(target)
    if there and there.entry.is_folder and not is_folder:
        raise cannot_replace_folder(target.name)
    if there and (is_folder or not replace):
        raise already_exists(target.name)
