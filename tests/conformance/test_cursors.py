import pytest

from portico.drive.cursors import CursorSeal
from portico.model.errors import InvalidCursor
from portico.model.paths import Path
from portico.model.rights import DEFAULT_RIGHTS
from portico.providers.contract.provider import Provider

from ..recorded_drive import RecordedDrive
from .actions import at, put
from .harness import Harness

pytestmark = pytest.mark.above_services


@pytest.fixture
async def cursor(drive: RecordedDrive) -> str:
    for path in ("f/1", "f/2", "f/3", "g/1", "g/2", "f/g/1"):
        await put(drive, path)
    token = (await drive.list_page(at("f"), 1)).token
    assert token is not None
    return token


async def refused(drive: RecordedDrive, folder: str, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        await drive.list_page(at(folder), 10, cursor)


async def test_a_cursor_works_again_and_again(drive: RecordedDrive, cursor: str) -> None:
    pages = [await drive.list_page(at("f"), size, cursor) for size in (2, 1, 2)]
    assert pages[0] == pages[2]
    assert pages[0].entries[:1] == pages[1].entries


async def test_a_cursor_outlives_the_provider_object(
    drive: RecordedDrive, harness: Harness, root: Path, seal: CursorSeal, cursor: str
) -> None:
    expected = await drive.list_page(at("f"), 10, cursor)
    node = harness.open()
    found = await RecordedDrive(node, root, DEFAULT_RIGHTS, seal).list_page(at("f"), 10, cursor)
    await node.close()
    assert found == expected


@pytest.mark.drive_alone
@pytest.mark.parametrize("folder", ["", "g", "f/g", "F", "missing"])
async def test_a_cursor_of_another_folder(
    drive: RecordedDrive, provider: Provider, cursor: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_listing(provider, monkeypatch)
    await refused(drive, folder, cursor)


@pytest.mark.drive_alone
async def test_a_cursor_of_another_root(drive: RecordedDrive, provider: Provider, seal: CursorSeal) -> None:
    for root in ("one", "two"):
        for name in "ab":
            await put(RecordedDrive(provider, at(root), DEFAULT_RIGHTS, seal), f"f/{name}")
    cursor = (await RecordedDrive(provider, at("one"), DEFAULT_RIGHTS, seal).list_page(at("f"), 1)).token
    assert cursor is not None
    await refused(RecordedDrive(provider, at("two"), DEFAULT_RIGHTS, seal), "f", cursor)


async def test_a_cursor_of_another_connection(harness: Harness, root: Path, seal: CursorSeal, cursor: str) -> None:
    other = await harness.open_other()
    drive = RecordedDrive(other, root, DEFAULT_RIGHTS, seal)
    await put(drive, "f/1")
    await put(drive, "f/2")
    await refused(drive, "f", cursor)
    await other.close()


@pytest.mark.drive_alone
async def test_a_cursor_of_another_key(provider: Provider, root: Path, cursor: str) -> None:
    await refused(RecordedDrive(provider, root, DEFAULT_RIGHTS, CursorSeal(b"another key")), "f", cursor)


@pytest.mark.drive_alone
async def test_an_altered_cursor(
    drive: RecordedDrive, provider: Provider, cursor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_listing(provider, monkeypatch)
    altered = [
        *(cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1 :] for i in range(len(cursor))),
        *(cursor[:-1], cursor[1:], cursor[-22:], cursor + "A", "A" + cursor, f" {cursor}", f"{cursor}\n"),
        *("", "A", "A" * 64 * 1024, cursor * 1000, "é" * 40, "\0" * 40, "\ud800" * 40, "../../" * 10),
    ]
    for other in altered:
        await refused(drive, "f", other)


async def test_a_cursor_of_a_folder_that_is_gone(drive: RecordedDrive, cursor: str) -> None:
    await drive.delete(at("f"), recursive=True)
    await refused(drive, "f", cursor)


async def test_a_cursor_of_a_folder_that_became_a_file(drive: RecordedDrive, cursor: str) -> None:
    await drive.delete(at("f"), recursive=True)
    await put(drive, "f")
    await refused(drive, "f", cursor)


def forbid_listing(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    async def called(*_: object, **__: object) -> None:
        raise AssertionError("the provider was asked")

    monkeypatch.setattr(provider, "list_page", called)
