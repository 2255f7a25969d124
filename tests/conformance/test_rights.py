from collections.abc import Awaitable, Callable

import pytest

from portico.drive.cursors import CursorSeal
from portico.drive.drive import OnConflict
from portico.model.errors import AlreadyExists, Forbidden
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS, OVERWRITE, Right
from portico.providers.contract.provider import Provider

from ..recorded_drive import RecordedDrive
from .actions import at, pieces, put, tree

LIST, DOWNLOAD, UPLOAD = Right.LIST, Right.DOWNLOAD, Right.UPLOAD
REPLACE, DELETE = Right.REPLACE, Right.DELETE
Action = Callable[[RecordedDrive], Awaitable[object]]

ACTIONS: dict[str, tuple[set[Right], Action]] = {
    "list": ({LIST}, lambda drive: drive.list_page(at("/"), 10)),
    "stat": ({LIST}, lambda drive: drive.stat(at("file"))),
    "stat-root": ({LIST}, lambda drive: drive.stat(at("/"))),
    "stat_for_download": ({DOWNLOAD}, lambda drive: drive.stat_for_download(at("file"))),
    "read": ({DOWNLOAD}, lambda drive: read(drive)),
    "write": ({UPLOAD}, lambda drive: put(drive, "new")),
    "write-fail": ({UPLOAD}, lambda drive: put(drive, "new", b"", OnConflict.FAIL)),
    "write-rename": ({UPLOAD}, lambda drive: put(drive, "file", b"", OnConflict.RENAME)),
    "write-replace": ({UPLOAD, REPLACE}, lambda drive: put(drive, "file", b"", OnConflict.REPLACE)),
    "make-folder": ({UPLOAD}, lambda drive: drive.make_folder(at("new"))),
    "copy": ({DOWNLOAD, UPLOAD}, lambda drive: drive.copy(at("file"), at("new"))),
    "copy-folder": ({DOWNLOAD, UPLOAD}, lambda drive: drive.copy(at("folder"), at("new"))),
    "copy-rename": ({DOWNLOAD, UPLOAD}, lambda drive: drive.copy(at("file"), at("other"), OnConflict.RENAME)),
    "copy-replace": (
        {DOWNLOAD, UPLOAD, REPLACE},
        lambda drive: drive.copy(at("file"), at("other"), OnConflict.REPLACE),
    ),
    "move": ({UPLOAD, *OVERWRITE}, lambda drive: drive.move(at("file"), at("new"))),
    "delete": ({DELETE}, lambda drive: drive.delete(at("file"))),
    "delete-folder": ({DELETE}, lambda drive: drive.delete(at("folder"), recursive=True)),
}


async def read(drive: RecordedDrive) -> None:
    await (await drive.read(at("file"))).chunks.aclose()


@pytest.fixture
async def before(drive: RecordedDrive) -> dict[str, bytes | None]:
    for path in ("file", "other", "folder/file"):
        await put(drive, path, path.encode())
    return {"/file": b"file", "/other": b"other", "/folder": None, "/folder/file": b"folder/file"}


@pytest.mark.drive_alone
@pytest.mark.parametrize("action", ACTIONS)
async def test_every_right_counts(
    drive: RecordedDrive, provider: Provider, root: Path, seal: CursorSeal, before: dict[str, bytes | None], action: str
) -> None:
    needed, act = ACTIONS[action]
    for right in needed:
        with pytest.raises(Forbidden, match=right):
            await act(RecordedDrive(provider, root, DEFAULT_RIGHTS - {right}, seal))
        assert await tree(drive) == before
    await act(RecordedDrive(provider, root, needed, seal))


async def test_without_the_right_to_overwrite_everything_is_kept(
    drive: RecordedDrive, provider: Provider, root: Path, seal: CursorSeal, before: dict[str, bytes | None]
) -> None:
    humble = RecordedDrive(provider, root, {DOWNLOAD, UPLOAD}, seal)
    with pytest.raises(AlreadyExists):
        await humble.write(at("file"), pieces(b"new"), "text/plain")
    for source, target in (("file", "other"), ("folder", "other")):
        with pytest.raises(AlreadyExists):
            await humble.copy(at(source), at(target))
    assert await tree(drive) == before
