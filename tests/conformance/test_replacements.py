"""Files that are replaced while they are moved or copied: the newest version is never lost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from portico.model.errors import Changed, PorticoError, changed
from portico.model.paths import TRASH, Path
from portico.providers.contract.provider import Provider
from portico.providers.objects.service import ObjectService, Version, key_of

from ..recorded_drive import RecordedDrive
from .actions import at, content, exists, put, tree

pytestmark = pytest.mark.above_services


async def newest(drive: RecordedDrive, source: str, target: str) -> bytes:
    return await content(drive, source if await exists(drive, source) else target)


@pytest.mark.parametrize("merging", [False, True], ids=["new", "merge"])
async def test_a_file_that_is_replaced_during_a_move_is_not_lost(drive: RecordedDrive, merging: bool) -> None:
    if merging:
        await put(drive, "to/other", b"other")
    for name in "abcd":
        await put(drive, f"from/{name}", b"0")
    stored = 0
    moved = False

    async def replace() -> None:
        nonlocal stored
        while not moved:
            with suppress(PorticoError):  # its folder goes meanwhile; what is refused is not lost
                await put(drive, "from/b", b"%d" % (stored + 1))
                stored += 1

    replacing = asyncio.create_task(replace())
    while not stored:
        await asyncio.sleep(0)
    with suppress(Changed):  # the newer version stays, and the answer says so
        await drive.move(at("from"), at("to"))
    moved = True
    await replacing
    assert await newest(drive, "from/b", "to/b") == b"%d" % stored
    assert [await newest(drive, f"from/{name}", f"to/{name}") for name in "acd"] == [b"0"] * 3


def after_each_copy(provider: ObjectService, act: Callable[[], Awaitable[object]]) -> Callable[..., Any]:
    copied = provider.duplicate

    async def duplicate(*arguments: Any, **options: Any) -> None:
        await copied(*arguments, **options)
        await act()

    return duplicate


def before_each_copy(provider: ObjectService, act: Callable[[], Awaitable[object]]) -> Callable[..., Any]:
    copied = provider.duplicate

    async def duplicate(*arguments: Any, **options: Any) -> None:
        await act()
        await copied(*arguments, **options)

    return duplicate


@pytest.mark.object_services  # the others move by a rename: there is no moment in between
@pytest.mark.parametrize("source", ["from", "from/b"])
async def test_what_is_replaced_after_its_copy_stays_at_the_source(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    assert isinstance(provider, ObjectService)
    for name in "abc":
        await put(drive, f"from/{name}", b"old")

    async def replace() -> None:
        await put(drive, "from/b", b"acknowledged")

    monkeypatch.setattr(provider, "duplicate", after_each_copy(provider, replace))
    with pytest.raises(Changed, match="'b' was replaced during the move"):
        await drive.move(at(source), at("to"))
    assert await content(drive, "from/b") == b"acknowledged"
    assert await content(drive, "to/b" if source == "from" else "to") in (b"old", b"acknowledged")
    if source == "from":
        assert await tree(drive, "from") == {"/from/b": b"acknowledged"}


@pytest.mark.object_services
@pytest.mark.parametrize("how", ["copy", "move"])
async def test_what_is_replaced_before_its_copy_is_copied_as_it_is_then(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert isinstance(provider, ObjectService)
    await put(drive, "from/b", b"old")
    replaced: list[bool] = []

    async def replace() -> None:
        if not replaced:
            replaced.append(True)
            await put(drive, "from/b", b"newer than its listing")

    monkeypatch.setattr(provider, "duplicate", before_each_copy(provider, replace))
    with suppress(Changed):  # of a service as below
        await (drive.copy if how == "copy" else drive.move)(at("from"), at("to"))
    assert await content(drive, "to/b") == b"newer than its listing"
    # A service that does not look at the version of a copy's source leaves the newer one there as well.
    assert await newest(drive, "from/b", "to/b") == b"newer than its listing"


@pytest.mark.object_services
@pytest.mark.parametrize("how", ["copy", "move"])
async def test_a_transfer_that_is_called_off_leaves_whole_files(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert isinstance(provider, ObjectService)
    for number in range(20):
        await put(drive, f"from/{number}", b"%d" % number)
    enough = asyncio.Event()

    async def count() -> None:
        enough.set()

    monkeypatch.setattr(provider, "duplicate", after_each_copy(provider, count))
    transfer = asyncio.create_task((drive.copy if how == "copy" else drive.move)(at("from"), at("to")))
    await enough.wait()
    transfer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await transfer
    found = await tree(drive)
    assert {path: data for path, data in found.items() if path.startswith("/from/")} == {
        f"/from/{number}": b"%d" % number for number in range(20)
    }
    copies = {path.rpartition("/")[2]: data for path, data in found.items() if path.startswith("/to/")}
    assert all(data == name.encode() for name, data in copies.items())
    monkeypatch.undo()
    await drive.move(at("from"), at("to"))
    assert await tree(drive) == {"/to": None} | {f"/to/{number}": b"%d" % number for number in range(20)}


@pytest.mark.object_services
@pytest.mark.parametrize("path", ["from", "from/b"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "always"])
async def test_replaced_file_is_deleted_as_it_is_then(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, path: str, lasting: bool
) -> None:
    """Or the delete fails: a file that stays is never reported as deleted."""
    assert isinstance(provider, ObjectService)
    for name in "abc":
        await put(drive, f"from/{name}", b"old")
    remove, stored = provider.remove_versions, 0

    async def replace_and_remove(versions: list[Version]) -> list[Version]:
        nonlocal stored
        if lasting or not stored:
            stored += 1
            await put(drive, "from/b", b"newer %d" % stored)
        return await remove(versions)

    monkeypatch.setattr(provider, "remove_versions", replace_and_remove)
    place = Path((TRASH, "0123"))
    if lasting:
        with pytest.raises(Changed, match="'b' has changed"):
            await provider.move_to_trash(at(path).under(drive.root), place)
        assert await content(drive, "from/b") == b"newer %d" % stored
        return
    await provider.move_to_trash(at(path).under(drive.root), place)
    assert not await exists(drive, path)
    monkeypatch.undo()
    await provider.restore(place, at(path).under(drive.root))
    assert await content(drive, "from/b") == b"newer 1"


@pytest.mark.object_services
@pytest.mark.parametrize("how", ["move", "delete"])
async def test_version_that_a_service_denies_is_removed(
    drive: RecordedDrive, provider: Provider, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert isinstance(provider, ObjectService)
    await put(drive, "from/b", b"stored in parts")
    remove = provider.remove_version

    async def refuse(version: Version) -> None:
        if version.etag is not None:
            raise changed(version.key)
        await remove(version)

    monkeypatch.setattr(provider, "remove_version", refuse)
    if how == "move":
        await drive.move(at("from"), at("to"))
    else:
        await provider.move_to_trash(at("from").under(drive.root), Path((TRASH, "0123")))
    assert not await exists(drive, "from")


@pytest.mark.object_services
async def test_folder_marker_that_a_service_denies_is_removed(
    drive: RecordedDrive, provider: Provider, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never hides behind a success."""
    assert isinstance(provider, ObjectService)
    await put(drive, "marker")
    key = key_of(at("marker").under(root))
    find, remove = provider.find, provider.remove_version

    async def find_marker(key: str) -> Any:
        found = await find(key)
        if found:
            found.is_folder = True
        return found

    async def refuse(version: Version) -> None:
        if version.etag is not None:
            raise changed(version.key)
        await remove(version)

    found = await find(key)
    assert found
    monkeypatch.setattr(provider, "find", find_marker)
    monkeypatch.setattr(provider, "remove_version", refuse)
    assert await provider.remove_versions([Version(key, found.etag)]) == []
    assert await find(key) is None
